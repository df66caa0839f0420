// Package horizontalpodautoscaler is the horizontal-pod-autoscaler controller: it changes the size of workloads so that metrics come near
// their targets.
//
// A program passes what horizontalpodautoscaler.New(horizontalpodautoscaler.Options{}) returns to manager.New. For users, docs/horizontalpodautoscaler.md says what the controller does.
package horizontalpodautoscaler
