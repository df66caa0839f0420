// Package disruption keeps the status of PodDisruptionBudgets, by which the API server decides whether a pod may be evicted.
//
// A program passes what disruption.New(disruption.Options{}) returns to manager.New. For users, docs/disruption.md says what the controller does.
package disruption
