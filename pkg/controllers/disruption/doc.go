// Package disruption keeps the status of PodDisruptionBudgets, by which the API server decides whether a pod
// may be evicted.
//
// A program passes what disruption.New(disruption.Options{}) returns to manager.New. For users,
// docs/disruption.md says what the controller does.
//
// There are two queues. A key of the first is a budget: Observe counts its pods, and of a large one only
// those that have changed (plan_selection.go). If the budget is about a share, it finds out what the owners
// of the pods are meant to have (observe_scale.go). The plan has only events; the status is the report. A key
// of the second is a pod: planPod takes back that it is about to be disrupted when nothing came of it, and
// warns of budgets that overlap.
package disruption
