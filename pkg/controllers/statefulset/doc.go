// Package statefulset keeps the pods of StatefulSets alive under their own names and with their own claims: it creates and deletes them in
// the order of their ordinals, or in parallel, replaces those of earlier revisions of the template, and reports how far that has come.
//
// A program passes what statefulset.New(statefulset.Options{}) returns to manager.New. For users, docs/statefulset.md says what the controller does.
package statefulset
