package job

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// surplus returns the active pods to delete, so that no more than wanted are left: first those that no index needs
// (JOB-70), then by rank (JOB-22).
func surplus(s view, wanted int) []*corev1.Pod {
	needless, needed := splitByNeed(s)
	over := len(needed) - wanted
	if over <= 0 {
		return needless
	}
	if over < len(needed) {
		slices.SortFunc(needed, rank)
	}
	return append(needless, needed[:over]...)
}

// splitByNeed parts the active pods that no index needs from the others. They have no valid index, one that is done,
// or are not the first of theirs.
func splitByNeed(s view) (needless, needed []*corev1.Pod) {
	pods := slices.Clone(s.active)
	if !workloads.Indexed(s.Job) {
		return nil, pods
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return rank(b, a) })
	seen := map[int]bool{}
	for _, p := range pods {
		index, ok := indexOf(p)
		if !ok || index >= workloads.Completions(s.Job) || seen[index] || s.done(index) {
			needless = append(needless, p)
			continue
		}
		seen[index] = true
		needed = append(needed, p)
	}
	return needless, needed
}

// rank is negative if a is deleted before b. Before all others go those whose finalizer is gone: they were to be
// deleted before, and their end could not be counted.
func rank(a, b *corev1.Pod) int {
	ra, rb := podutil.Restarts(a), podutil.Restarts(b)
	return cmp.Or(
		podutil.FalseFirst(workloads.Tracked(a), workloads.Tracked(b)),
		podutil.FalseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(progress(a), progress(b)),
		podutil.FalseFirst(podutil.Ready(a), podutil.Ready(b)),
		readyAge(a, b),
		cmp.Compare(rb[0], ra[0]), cmp.Compare(rb[1], ra[1]),
		podutil.ByCreation(b, a),
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

// deleteUncounted deletes active pods that shall not be counted: first the finalizer, then the pod (JOB-23). One that
// is listed, although nothing says that it has ended, loses its finalizer in the next reconcile, like those that are
// counted.
func deleteUncounted(s view, pods []*corev1.Pod) plan.Step {
	var each plan.Each
	for _, p := range pods {
		sequence := []plan.Step{deletePods(p)}
		if workloads.Tracked(p) && !s.listed[p.UID] {
			step := untrack(p, "the pod is deleted without being counted")
			step.CheckVersion = true // it may have ended meanwhile, and must be counted then
			sequence = []plan.Step{step, deletePods(p)}
		}
		each.Sequences = append(each.Sequences, sequence)
	}
	return each
}

// deletePods deletes active pods.
func deletePods(pods ...*corev1.Pod) plan.Step { return podutil.Delete(pods, "pods are not wanted") }
