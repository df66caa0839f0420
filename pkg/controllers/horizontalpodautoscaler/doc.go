// Package horizontalpodautoscaler is the horizontal-pod-autoscaler controller: it changes the size of
// workloads so that metrics come near their targets.
//
// A program passes what horizontalpodautoscaler.New(horizontalpodautoscaler.Options{}) returns to
// manager.New. For users, docs/horizontalpodautoscaler.md says what the controller does.
//
// A key is an autoscaler. The clock enqueues it once in a period (type schedule). All autoscalers of a
// namespace are due at the same time, so that they can share what is read of the metrics. The files
// observe_*.go read: the scale of the target, what the metrics APIs answer, and what the autoscalers of a
// namespace have to do with one another. The files plan_*.go decide: what each metric asks for
// (plan_metrics.go), by which pods (plan_pods.go), within which limits (plan_limits.go), and what the past
// has to do with it (plan_history.go). Report writes the status, and leaves out small changes until the next
// evaluation.
package horizontalpodautoscaler
