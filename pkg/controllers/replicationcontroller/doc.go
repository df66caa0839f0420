// Package replicationcontroller is the replicationcontroller controller. What it does is in package replicas.
//
// A program passes what replicationcontroller.New(replicationcontroller.Options{}) returns to manager.New.
// For users, docs/replicationcontroller.md says what the controller does.
//
// This package says what is special about ReplicationControllers: where they are cached, that they have no
// siblings, its flag and its rights.
package replicationcontroller
