// Package clusterroleaggregation is the ClusterRole aggregation controller: the rules of a ClusterRole with
// an aggregation rule are those of the ClusterRoles that it selects.
//
// A program passes what clusterroleaggregation.New(clusterroleaggregation.Options{}) returns to manager.New.
// For users, docs/clusterroleaggregation.md says what the controller does.
//
// A key is a ClusterRole with an aggregation rule. A change that may matter to one of them enqueues all, of
// which there are about three. Observe finds the roles whose rules count, which an index by labels makes
// cheap. Plan applies the union of their rules by server-side apply, if the role has others.
package clusterroleaggregation
