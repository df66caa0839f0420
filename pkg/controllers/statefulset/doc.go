// Package statefulset keeps the pods of StatefulSets alive under their own names and with their own claims:
// it creates and deletes them in the order of their ordinals, or in parallel, replaces those of earlier
// revisions of the template, and reports how far that has come.
//
// A program passes what statefulset.New(statefulset.Options{}) returns to manager.New. For users,
// docs/statefulset.md says what the controller does.
//
// A key is a StatefulSet. Observe finds its pods and revisions, and the claims of the ordinals that one
// reconcile may deal with. The planner sorts them out once (plan.go, plan_revisions.go). It goes through the
// ordinals in order, or does all at once (plan_replicas.go). What a pod needs of claims and of its identity
// is in plan_claims.go and plan_identity.go. Then it replaces outdated pods (plan_update.go,
// plan_recreate.go). Report counts the pods.
package statefulset
