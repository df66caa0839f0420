// Package clusterroleaggregation is the ClusterRole aggregation controller: the rules of a ClusterRole with an aggregation rule are those
// of the ClusterRoles that it selects.
//
// A program passes what clusterroleaggregation.New(clusterroleaggregation.Options{}) returns to manager.New. For users, docs/clusterroleaggregation.md says what the controller does.
package clusterroleaggregation
