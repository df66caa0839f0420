package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a Job has observed. Observe fills it, and newView sorts it out for plan,
// report and metrics. The objects belong to shared caches.
type snapshot struct {
	Job *batchv1.Job
	// Pods are those that the Job controls, by its uid, and the orphans of its namespace.
	Pods []*corev1.Pod
	// Scheduling is nil while pods are not scheduled as groups.
	Scheduling *scheduling
	Began      time.Time // when the reconcile began, for metrics
	// Memory is what the process remembers of the Job's failures from before; nil for nothing.
	Memory *memory
}

// decision is what the plan has worked out: the pods sorted out and counted, and what is to be remembered.
// planJob makes it; report, metrics and memory read it.
type decision struct {
	selector  labels.Selector // nil: the Job is left alone
	invalid   error           // the selector makes no sense; then there are no pods and no steps
	mine      []*corev1.Pod   // the pods that the Job controls or adopts
	ownership []plan.Step     // that adopt and release pods
	counts
	group grouping
	// Remembered is what the process remembers of the Job's failures, those of the snapshot included; nil for nothing.
	Remembered *memory
}

// view is a snapshot and what it means. Planner and report take it as one value.
type view struct {
	snapshot
	decision
}

// newView finds out what a snapshot means. A Job that is left alone means nothing.
func newView(now time.Time, of snapshot) view {
	s := view{snapshot: of}
	if leftAlone(s.Job) {
		return s
	}
	if s.selector, s.invalid = plan.Selector(s.Job.Spec.Selector); s.invalid == nil {
		s.mine, s.ownership = claim(s)
		s.counts = newCounts(s)
		s.group = planGroup(s)
	}
	s.Remembered = s.Memory.see(now, s)
	return s
}

// leftAlone reports whether there is nothing to do for a Job: it has finished (JOB-9), or another controller manages
// it (JOB-13).
func leftAlone(j *batchv1.Job) bool {
	return workloads.ManagedElsewhere(j) || workloads.JobFinished(j) != nil
}
