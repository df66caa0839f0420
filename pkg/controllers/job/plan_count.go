package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// counts are what the Job's pods mean for the counters of its status. For Indexed Jobs the number of succeeded pods
// is not summed up, but is that of completed indexes.
type counts struct {
	active      []*corev1.Pod
	terminating []*corev1.Pod // being deleted, not ended yet

	succeeded, failed             int32       // the counters, which include the listed pods whose finalizer is gone
	listedSucceeded, listedFailed []types.UID // that remain in the lists of the status
	listed                        map[types.UID]bool
	completedBefore, failedBefore indexes // as the status has them
	completed, failedIndexes      indexes // with what is new

	counted      []*corev1.Pod // are listed in the status: the finalizer can be removed
	newSucceeded []*corev1.Pod // are not listed yet; of Indexed Jobs one for each index that is not completed yet
	newFailed    []*corev1.Pod // are not listed yet
	// have ended, but do not count: by the pod failure policy, without a valid index, or of an index that is done
	ignored []*corev1.Pod
	// toReplace are by index the failed pods that must exist until there is a replacement, which knows from them how
	// often the index has failed (JOB-67). They are among newFailed or ignored, but keep their finalizer, and are not
	// listed yet: as indexes in back-off leave their places to later ones (JOB-124), nothing bounds their number. One
	// that lost its replacement again may be among counted.
	toReplace map[int]*corev1.Pod
	actions   map[types.UID]policyMatch // of the Job's pod failure policy
}

// newCounts reads the pods in the order of their creation.
func newCounts(s view) counts {
	c := counts{
		succeeded: s.Job.Status.Succeeded, failed: s.Job.Status.Failed,
		toReplace: map[int]*corev1.Pod{}, actions: map[types.UID]policyMatch{},
	}
	c.readLists(s)
	if workloads.Indexed(s.Job) {
		c.completedBefore = parseIndexes(s.Job.Status.CompletedIndexes, workloads.Completions(s.Job))
		c.succeeded = int32(c.completedBefore.count())
		if workloads.HasLimitPerIndex(s.Job) && s.Job.Status.FailedIndexes != nil {
			c.failedBefore = parseIndexes(*s.Job.Status.FailedIndexes, workloads.Completions(s.Job))
		}
	}
	c.completed, c.failedIndexes = c.completedBefore, c.failedBefore
	var succeeded, failed []*corev1.Pod
	for _, p := range s.mine {
		switch {
		case podutil.Active(p):
			c.active = append(c.active, p)
		case podutil.Terminating(p):
			c.terminating = append(c.terminating, p)
		}
		switch {
		case !workloads.Tracked(p): // is counted already, or will not be (JOB-44)
		case c.listed[p.UID]:
			c.counted = append(c.counted, p)
		case p.Status.Phase == corev1.PodSucceeded:
			succeeded = append(succeeded, p)
		case hasFailed(s.Job, p):
			failed = append(failed, p)
		}
	}
	slices.SortFunc(succeeded, podutil.ByCreation)
	slices.SortFunc(failed, podutil.ByCreation)
	c.addSucceeded(s.Job, succeeded)
	c.addFailed(s.Job, failed)
	if workloads.HasLimitPerIndex(s.Job) && s.Job.DeletionTimestamp == nil && !writtenEnd(s.Job).decided() {
		c.findToReplace(s.Job)
	}
	return c
}

// readLists adds the listed pods whose finalizer is gone to the counters (JOB-41). The others remain listed.
func (c *counts) readLists(s view) {
	lists := s.Job.Status.UncountedTerminatedPods
	if lists == nil {
		return
	}
	tracked := map[types.UID]bool{}
	for _, p := range s.Pods {
		if workloads.Tracked(p) { // also if somebody has made it an orphan: it may come back
			tracked[p.UID] = true
		}
	}
	seen := map[types.UID]bool{}
	c.listed = map[types.UID]bool{}
	read := func(uids []types.UID, counter *int32, list *[]types.UID) {
		for _, uid := range uids {
			switch {
			case seen[uid]:
			case tracked[uid]:
				*list = append(*list, uid)
				c.listed[uid] = true
			default:
				*counter++
			}
			seen[uid] = true
		}
	}
	read(lists.Failed, &c.failed, &c.listedFailed) // what is listed as failed stays so (JOB-44)
	read(lists.Succeeded, &c.succeeded, &c.listedSucceeded)
}

// addSucceeded sorts pods that have succeeded. Of an Indexed Job, one counts for each index that is not done.
func (c *counts) addSucceeded(j *batchv1.Job, pods []*corev1.Pod) {
	if !workloads.Indexed(j) {
		c.newSucceeded = pods
		return
	}
	var more []int
	seen := map[int]bool{}
	for _, p := range pods {
		index, ok := indexOf(p)
		if !ok || index >= workloads.Completions(j) || c.done(index) || seen[index] {
			c.ignored = append(c.ignored, p)
			continue
		}
		seen[index] = true
		more = append(more, index)
		c.newSucceeded = append(c.newSucceeded, p)
	}
	c.completed = c.completedBefore.with(more...)
}

// addFailed sorts pods that have failed: those that count, and those that are ignored by the policy or have
// no valid index. It notes which indexes fail with them.
func (c *counts) addFailed(j *batchv1.Job, pods []*corev1.Pod) {
	var more []int
	for _, p := range pods {
		index, ok := indexOf(p)
		if workloads.Indexed(j) && (!ok || index >= workloads.Completions(j)) {
			c.ignored = append(c.ignored, p)
			continue
		}
		m := matchPolicy(j, p)
		if m.action != "" {
			c.actions[p.UID] = m
		}
		if m.action == batchv1.PodFailurePolicyActionIgnore {
			c.ignored = append(c.ignored, p)
			continue
		}
		c.newFailed = append(c.newFailed, p)
		if failsIndex(j, p, m) && !c.completed.has(index) && (p.DeletionTimestamp == nil || !writtenEnd(j).decided()) {
			more = append(more, index)
		}
	}
	c.failedIndexes = c.failedBefore.with(more...)
}

// failsIndex reports whether the failure of the pod is the end of its index (JOB-68). That of a pod which was deleted
// because the Job ends is not: see addFailed.
func failsIndex(j *batchv1.Job, p *corev1.Pod, m policyMatch) bool {
	return workloads.HasLimitPerIndex(j) && (m.action == batchv1.PodFailurePolicyActionFailIndex ||
		failuresOf(p).counted >= int(*j.Spec.BackoffLimitPerIndex))
}

// done reports whether an index has succeeded or failed for good.
func (c *counts) done(index int) bool { return c.completed.has(index) || c.failedIndexes.has(index) }

// totalSucceeded is the number of pods, or indexes, that have succeeded, whether or not they are counted yet.
func (c *counts) totalSucceeded(j *batchv1.Job) int {
	if workloads.Indexed(j) {
		return c.completed.count()
	}
	return int(c.succeeded) + len(c.listedSucceeded) + len(c.newSucceeded)
}

// totalFailed likewise (JOB-63).
func (c *counts) totalFailed() int {
	return int(c.failed) + len(c.listedFailed) + len(c.newFailed)
}

// hasFailed reports whether the pod counts as failed. Unless the Job replaces pods only when they have ended, one
// that is being deleted does (JOB-28).
func hasFailed(j *batchv1.Job, p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || podutil.Terminating(p) && !workloads.ReplacesOnlyEnded(j)
}
