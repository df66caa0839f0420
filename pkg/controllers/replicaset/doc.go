// Package replicaset is the replicaset controller. What it does is in package replicas.
//
// A program passes what replicaset.New(replicaset.Options{}) returns to manager.New. For users, docs/replicaset.md says what the controller does.
package replicaset
