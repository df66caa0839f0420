// Package replicaset is the replicaset controller. What it does is in package replicas.
//
// A program passes what replicaset.New(replicaset.Options{}) returns to manager.New. For users,
// docs/replicaset.md says what the controller does.
//
// This package says what is special about ReplicaSets: where they are cached, which of them have the same
// Deployment, its flags, its metrics and its rights.
package replicaset
