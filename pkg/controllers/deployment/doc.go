// Package deployment rolls Deployments out: it keeps one ReplicaSet per pod template, moves replicas from the
// old ones to the newest at the pace that the strategy allows, and reports how far that has come.
//
// A program passes what deployment.New(deployment.Options{}) returns to manager.New. For users,
// docs/deployment.md says what the controller does.
//
// A key is a Deployment. Changes of its ReplicaSets and of their pods enqueue it. Observe reads caches only,
// and takes pods that this process has just deleted for deleted. The planner sorts the snapshot out once
// (plan_rollout.go), takes one course (plan.go) and plans one stage of it; each write leads to the next
// reconcile, and so to the next stage. Each course has a file: plan_create.go, plan_scale.go, plan_roll.go,
// plan_recreate.go, plan_rollback.go, plan_history.go. The report (report.go, report_conditions.go) counts
// from the pods, so that it need not wait for statuses of ReplicaSets. The memory is what was seen of the
// progress, because reports are debounced and a status may be of the past.
package deployment
