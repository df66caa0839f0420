// Package deployment rolls Deployments out: it keeps one ReplicaSet per pod template, moves replicas from the old ones
// to the newest at the pace that the strategy allows, and reports how far that has come.
//
// A program passes what deployment.New(deployment.Options{}) returns to manager.New. For users, docs/deployment.md says what the controller does.
package deployment
