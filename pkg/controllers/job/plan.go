package job

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// burst is how many pods one reconcile creates, deletes or counts at most; the rest follows in the next (JOB-21,
// JOB-24, JOB-42).
const burst = 500

// planJob finds out what the snapshot means, once for all parts of the reconcile, and plans.
func planJob(now time.Time, s snapshot) (decision, plan.Plan) {
	v := newView(now, s)
	return v.decision, planPods(now, v)
}

// planPods decides which pods a Job adopts or releases, and how many it creates or which it deletes.
func planPods(now time.Time, s view) plan.Plan {
	switch {
	case workloads.ManagedElsewhere(s.Job):
		return plan.Plan{Why: "left to " + *s.Job.Spec.ManagedBy + ", by spec.managedBy"}
	case workloads.JobFinished(s.Job) != nil:
		return plan.Plan{Why: "finished"}
	case s.invalid != nil:
		return plan.Plan{Why: s.invalid.Error()}
	case unknownMode(s.Job):
		return plan.Plan{Why: "left alone: the completion mode is unknown",
			Steps: []plan.Step{plan.RecordEvent{Object: s.Job, Event: plan.Event{
				Type: corev1.EventTypeWarning, Reason: "UnknownCompletionMode",
				Message: "Skipped Job sync because completion mode is unknown"}}}}
	}
	p := managePods(now, s)
	// No reconcile writes an object twice, and an adopted pod may be one to delete.
	if len(plan.Adopted(s.ownership)) > 0 && len(written(p.Steps)) > 0 {
		p = plan.Plan{Why: "adopt pods, then: " + p.Why}
	}
	p.Steps = slices.Concat(s.ownership, untrackCounted(s, p.Steps))
	p.Requeue = plan.Sooner(p.Requeue, s.deadline(now))
	return p
}

// deadline returns the time until the active deadline of the Job is over; zero if it has none, or that is no matter.
func (s view) deadline(now time.Time) time.Duration {
	if wait := untilDeadline(now, s); wait > 0 && wait < never && s.Job.DeletionTimestamp == nil &&
		workloads.JobFinished(s.Job) == nil {
		return wait
	}
	return 0
}

// untrackCounted returns the steps and, beside them, those that remove the finalizers of the pods that the status
// lists as it is stored. Neither waits for the other: a pod whose finalizer cannot be removed does not keep the Job
// from anything else (JOB-47).
func untrackCounted(s view, steps []plan.Step) []plan.Step {
	var each plan.Each
	if len(steps) > 0 {
		each.Sequences = append(each.Sequences, steps)
	}
	written := written(steps)
	for _, o := range plan.Adopted(s.ownership) {
		written[o.GetUID()] = true
	}
	for _, p := range s.counted {
		if written[p.UID] || s.mustStay(p) { // no reconcile writes an object twice
			continue
		}
		each.Sequences = append(each.Sequences, []plan.Step{untrack(p, "the pod is counted")})
	}
	if len(each.Sequences) == min(len(steps), 1) {
		return steps
	}
	return []plan.Step{each}
}

// managePods decides how many pods are created, or which are deleted.
func managePods(now time.Time, s view) plan.Plan {
	end := endOf(now, s)
	switch {
	case s.Job.DeletionTimestamp != nil:
		return plan.Plan{Why: "being deleted, pods are left to the garbage collector"}
	case end.decided():
		p := plan.Plan{Why: fmt.Sprintf("%s: %s", end.reason, end.message)}
		switch n := min(len(s.active), burst); {
		case n == 0 || !workloads.HasJobCondition(s.Job.Status, end.interim):
		case end.failing():
			p.Steps = []plan.Step{deletePods(s.active[:n]...)} // counted later, see report (JOB-60)
		default: // they do not count, although their containers may fail when they are stopped (JOB-45)
			p.Steps = []plan.Step{deleteUncounted(s, s.active[:n])}
		}
		return p
	case workloads.Suspended(s.Job):
		p := plan.Plan{Why: "suspended"}
		if n := min(len(s.active), burst); n > 0 {
			p.Steps = []plan.Step{deleteUncounted(s, s.active[:n])}
		}
		return p
	}
	wanted := wantedPods(s)
	if doomed := surplus(s, wanted); len(doomed) > 0 {
		n := min(len(doomed), burst)
		return plan.Plan{Steps: append([]plan.Step{deleteUncounted(s, doomed[:n])}, s.group.steps...),
			Why: fmt.Sprintf("delete %d of %d pods too many", n, len(doomed))}
	}
	missing := wanted - len(s.active)
	if workloads.ReplacesOnlyEnded(s.Job) {
		missing -= len(s.terminating)
	}
	p := plan.Plan{Why: fmt.Sprintf("%d pods run, %d have succeeded", len(s.active), s.totalSucceeded(s.Job))}
	switch {
	case missing > 0 && s.group.lacking != "":
		p.Why = fmt.Sprintf("%d pods are missing, but %s", missing, s.group.lacking)
		if s.group.unserved {
			p.Steps, p.Requeue = []plan.Step{warning(s.Job, failedPodGroup, s.group.lacking)}, servedAgain
		}
	case missing > 0:
		p = createMissing(now, s, missing)
	}
	p.Steps = slices.Concat(s.group.steps, p.Steps)
	return p
}

// wantedPods is how many pods are to be active (JOB-20).
func wantedPods(s view) int {
	succeeded := s.totalSucceeded(s.Job)
	switch {
	case s.Job.Spec.Completions != nil:
		return min(workloads.Parallelism(s.Job), max(0, workloads.Completions(s.Job)-succeeded))
	case succeeded > 0:
		return min(workloads.Parallelism(s.Job), len(s.active))
	}
	return workloads.Parallelism(s.Job)
}

// unknownMode reports whether the completion mode is one that this version does not know.
func unknownMode(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode != batchv1.NonIndexedCompletion &&
		!workloads.Indexed(j)
}

// written returns the uids of the pods that the steps change or delete.
func written(steps []plan.Step) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, step := range steps {
		switch step := step.(type) {
		case plan.Change:
			uids[step.Old.GetUID()] = true
		case plan.Delete:
			for _, o := range step.Objects {
				uids[o.GetUID()] = true
			}
		case plan.Each:
			for _, sequence := range step.Sequences {
				maps.Copy(uids, written(sequence))
			}
		}
	}
	return uids
}
