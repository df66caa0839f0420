package job

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/jobutil"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// surplus returns the active pods to delete, so that no more than wanted are left: first those of an index that has no use for them
// (JOB-70), then by rank (JOB-22).
func surplus(s view, wanted int) []*corev1.Pod {
	useless, useful := sortOut(s)
	over := len(useful) - wanted
	if over <= 0 {
		return useless
	}
	if over < len(useful) {
		slices.SortFunc(useful, rank)
	}
	return append(useless, useful[:over]...)
}

// sortOut separates the active pods that no index has a use for. They are without a valid index, of one that is done, or not the first
// of theirs.
func sortOut(s view) (useless, useful []*corev1.Pod) {
	pods := slices.Clone(s.active)
	if !indexed(s.Job) {
		return nil, pods
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return rank(b, a) })
	seen := map[int]bool{}
	for _, p := range pods {
		index, ok := indexOf(p)
		if !ok || index >= completions(s.Job) || seen[index] || s.completed.has(index) || s.failedIndexes.has(index) {
			useless = append(useless, p)
			continue
		}
		seen[index] = true
		useful = append(useful, p)
	}
	return useless, useful
}

// rank is negative if a is deleted before b. Before all others go those whose finalizer is gone: they were to be deleted before, and
// their end could not be counted.
func rank(a, b *corev1.Pod) int {
	ra, rb := podutil.Restarts(a), podutil.Restarts(b)
	return cmp.Or(
		podutil.FalseFirst(jobutil.Tracked(a), jobutil.Tracked(b)),
		podutil.FalseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(progress(a), progress(b)),
		podutil.FalseFirst(podutil.Ready(a), podutil.Ready(b)),
		readyAge(a, b),
		cmp.Compare(rb[0], ra[0]), cmp.Compare(rb[1], ra[1]),
		byCreation(b, a),
	)
}

// progress orders phases: Pending, Unknown, Running.
func progress(p *corev1.Pod) int {
	return slices.Index([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}, p.Status.Phase)
}

// readyAge is negative if a has been ready for a shorter time than b.
func readyAge(a, b *corev1.Pod) int {
	if !podutil.Ready(a) || !podutil.Ready(b) {
		return 0
	}
	return podutil.ReadyCondition(b).LastTransitionTime.Compare(podutil.ReadyCondition(a).LastTransitionTime.Time)
}

// giveUp deletes active pods that shall not be counted: first the finalizer, then the pod (JOB-23). One that is listed, although nothing
// says that it has ended, loses its finalizer in the next reconcile, as one that is counted.
func giveUp(s view, pods []*corev1.Pod) plan.Step {
	var each plan.Each
	for _, p := range pods {
		sequence := []plan.Step{remove(p)}
		if jobutil.Tracked(p) && !s.listed[p.UID] {
			step := untrack(p, "the pod is given up")
			step.Version = true // it may have ended meanwhile, and must be counted then
			sequence = []plan.Step{step, remove(p)}
		}
		each.Sequences = append(each.Sequences, sequence)
	}
	return each
}

// remove deletes active pods.
func remove(pods ...*corev1.Pod) plan.Step {
	return plan.Delete{Objects: plan.Objects(pods), Why: "pods are not wanted", Events: plan.Events{
		Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulDelete", Message: "Deleted pod: {name}"},  // JOB-90
		Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedDelete", Message: "Error deleting: {error}"}, // JOB-90
	}}
}
