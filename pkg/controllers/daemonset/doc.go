// Package daemonset runs a pod of a DaemonSet on each node that its template allows: it creates and deletes
// pods as nodes come, go and change, and replaces them when the template changes, at the pace that the
// strategy allows. It keeps the earlier templates in ControllerRevisions, and reports how far it has come.
//
// A program passes what daemonset.New(daemonset.Options{}) returns to manager.New. For users,
// docs/daemonset.md says what the controller does.
//
// A key is a DaemonSet. Observe finds its pods and revisions, and the nodes that it has to do with
// (observe_nodes.go); which nodes those are is remembered, because one change of a node concerns each
// DaemonSet. The planner sorts that out once (snapshot.go) and goes on in this order: revisions
// (plan_revisions.go), pods of each node (plan_placement.go), and the rolling update (plan_rolling.go).
// Failed pods are replaced ever more rarely (plan_backoff.go): that is what the memory is for.
package daemonset
