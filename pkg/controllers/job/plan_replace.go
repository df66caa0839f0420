package job

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
)

// findToReplace finds the last failed pod of each index that is to run again and does not yet.
func (c *counts) findToReplace(j *batchv1.Job) {
	busy := c.busy(j)
	for _, p := range slices.Concat(c.newFailed, c.ignored, c.counted) {
		if index, ok := indexOf(p); ok && hasFailed(j, p) && index < workloads.Completions(j) && !busy[index] &&
			!c.done(index) {
			keepLater(c.toReplace, index, p)
		}
	}
}

// mustStay reports whether the pod must keep its finalizer until it is replaced.
func (c *counts) mustStay(p *corev1.Pod) bool {
	index, ok := indexOf(p)
	return ok && c.toReplace[index] == p
}

// busy returns the indexes that have a pod already: an active one or, where pods are replaced only when they have
// ended, one that is being deleted (JOB-28).
func (c *counts) busy(j *batchv1.Job) map[int]bool {
	busy := map[int]bool{}
	pods := c.active
	if workloads.ReplacesOnlyEnded(j) {
		pods = slices.Concat(c.active, c.terminating)
	}
	for _, p := range pods {
		if index, ok := indexOf(p); ok {
			busy[index] = true
		}
	}
	return busy
}

// lastFailures returns by index the pod whose annotations say most about the failures of the index. Usually it is one
// of toReplace.
func lastFailures(s view) map[int]*corev1.Pod {
	last := map[int]*corev1.Pod{}
	if !workloads.HasLimitPerIndex(s.Job) {
		return last
	}
	for _, p := range s.mine {
		if index, ok := indexOf(p); ok && p.Status.Phase != corev1.PodSucceeded &&
			(workloads.Tracked(p) || ownFailure(p)) && hasFailed(s.Job, p) {
			keepLater(last, index, p)
		}
	}
	return last
}

// keepLater puts the pod into the map, unless one is there that says more about the failures of the index.
func keepLater(all map[int]*corev1.Pod, index int, p *corev1.Pod) {
	before := all[index]
	if before == nil || cmp.Or(cmp.Compare(failuresOf(before).all(), failuresOf(p).all()),
		ended(before).Compare(ended(p)), cmp.Compare(before.UID, p.UID)) < 0 {
		all[index] = p
	}
}
