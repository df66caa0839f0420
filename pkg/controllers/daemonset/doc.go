// Package daemonset runs a pod of a DaemonSet on each node that its template allows: it creates and deletes pods as nodes come, go
// and change, replaces them when the template changes at the pace that the strategy allows, keeps the earlier templates in
// ControllerRevisions, and reports how far it has come.
//
// A program passes what daemonset.New(daemonset.Options{}) returns to manager.New. For users, docs/daemonset.md says what the controller does.
package daemonset
