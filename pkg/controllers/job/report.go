package job

import (
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportJob reports on what was decided.
func reportJob(now time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	return reportStatus(now, view{s, d}, did)
}

// reportStatus writes the status, and removes the finalizers of the pods that it then lists (see the documentation of
// the package).
func reportStatus(now time.Time, s view, did plan.Outcome) plan.Plan {
	next := s.deadline(now) // which does not wait until what was refused is tried again (JOB-4)
	if s.selector == nil || unknownMode(s.Job) || countsUncertain(s, did) {
		return plan.Plan{Requeue: next}
	}
	r := newReport(now, s, did)
	r.decide(now)
	free := r.count()
	r.finish(now)
	r.suspend(now)
	p := plan.Plan{Progressing: r.end.decided() || len(free) > 0, Requeue: next}
	if !unchanged(s.Job.Status, r.status) {
		after := *s.Job
		after.Status = r.status
		p.Steps = append(p.Steps,
			plan.Change{Old: s.Job, New: &after, Subresource: plan.Status, Why: "the status has changed"})
		p.Steps = append(p.Steps, r.events...)
		// A count that falls is refused as soon as parallelism is not completions any more (JOB-64).
		falls := r.status.Succeeded < s.Job.Status.Succeeded
		if onlyProgress(s.Job.Status, r.status) && !falls && !(r.end.decided() && len(r.deleted) > 0) {
			p.When = plan.OncePerSecond()
		}
	}
	if len(free) > 0 {
		p.Steps = append(p.Steps, r.untrackAll(free))
	}
	return p
}

// countsUncertain reports whether the counts may be wrong, because a pod could not be adopted or released, or may have
// lost its finalizer. If that pod is listed, it stays so, and the counts are right. One that has surely kept its
// finalizer counts as before.
func countsUncertain(s view, did plan.Outcome) bool {
	claimed := written(s.ownership)
	return slices.ContainsFunc(did.Results, func(r plan.Result) bool {
		uid := r.Object.GetUID()
		return r.Verb == plan.Changed && isPod(r) && r.Err != nil && !s.listed[uid] &&
			(claimed[uid] || !refused(r.Err))
	})
}

// refused reports whether the server has surely not carried out a write.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// isPod reports whether it was a pod that was written, and not what pods are scheduled by.
func isPod(r plan.Result) bool {
	_, ok := r.Object.(*corev1.Pod)
	return ok
}

// report is a report in the making. newReport begins it, and its methods fill in the status and gather
// events.
type report struct {
	view
	// did is what became of the plan.
	did     plan.Outcome
	touched map[types.UID]bool // pods that the plan has written
	deleted map[types.UID]bool // active pods that it has deleted
	left    int                // active pods that are left, with those that were created
	// end is how the Job ends, as this report says.
	end end
	// status is the one that is being made.
	status batchv1.JobStatus
	// events are about it, after the status is written.
	events []plan.Step
}

// newReport begins with how many pods there are, what the plan did included (JOB-87).
func newReport(now time.Time, s view, did plan.Outcome) *report {
	r := &report{view: s, did: did, touched: map[types.UID]bool{}, deleted: map[types.UID]bool{},
		status: *s.Job.Status.DeepCopy()}
	created, running := 0, 0
	for _, result := range did.Results {
		r.touched[result.Object.GetUID()] = true
		switch {
		case result.Err != nil || !isPod(result):
		case result.Verb == plan.Created:
			created++
		case result.Verb == plan.Deleted:
			r.deleted[result.Object.GetUID()] = true
			if result.Object.(*corev1.Pod).Spec.NodeName != "" { // others are gone at once
				running++
			}
		}
	}
	ready := 0
	for _, p := range s.active {
		if !r.deleted[p.UID] && podutil.Ready(p) {
			ready++
		}
	}
	r.left = len(s.active) + created - len(r.deleted)
	r.status.Active = int32(r.left)
	r.status.Ready = ptr.To(int32(ready))
	r.status.Terminating = ptr.To(int32(len(s.terminating) - len(s.neverStarted()) + running))
	if r.status.StartTime == nil && !workloads.Suspended(s.Job) {
		r.status.StartTime = &metav1.Time{Time: now}
	}
	return r
}

// decide finds out whether the Job ends.
func (r *report) decide(now time.Time) {
	r.end = endOf(now, r.view)
	if !r.end.decided() {
		r.end = completionsReached(r.view, r.left)
	}
}

// count lists the pods that have ended, and returns those whose finalizer can be removed when that is written. Of the
// pods that the plan has just written, the finalizer is removed by the next reconcile.
func (r *report) count() (free []*corev1.Pod) {
	failed, ignored := r.outcomes()
	// the lists are part of each write of the status, so their size has a bound (JOB-42)
	room := max(0, burst-len(r.listed))
	succeeded := r.newSucceeded[:min(burst, len(r.newSucceeded))]
	if !workloads.Indexed(r.Job) {
		succeeded = succeeded[:min(room, len(succeeded))]
	}
	failed = failed[:max(0, min(room-len(succeeded), len(failed)))]
	lists := &batchv1.UncountedTerminatedPods{Succeeded: slices.Clone(r.listedSucceeded),
		Failed: slices.Clone(r.listedFailed)}
	for _, p := range failed {
		lists.Failed = append(lists.Failed, p.UID)
	}
	if !workloads.Indexed(r.Job) {
		for _, p := range succeeded {
			lists.Succeeded = append(lists.Succeeded, p.UID)
		}
	}
	r.status.UncountedTerminatedPods = lists
	r.status.Succeeded, r.status.Failed = r.succeeded, r.failed
	r.countIndexes(succeeded, failed)
	for _, p := range slices.Concat(succeeded, failed, ignored) {
		if !r.touched[p.UID] {
			free = append(free, p)
		}
	}
	slices.SortFunc(free, podutil.ByCreation)
	return free
}

// outcomes returns which pods count as failed, and which lose their finalizer without being counted. Those that must
// stay until they are replaced do neither yet.
func (r *report) outcomes() (failed, ignored []*corev1.Pod) {
	failed, ignored = slices.Clone(r.newFailed), slices.Clone(r.ignored)
	unfinished := r.unfinished()
	switch {
	case r.end.failing():
		failed = append(failed, unfinished...)
	case r.end.decided(): // only those that have really failed count
		failed = slices.DeleteFunc(failed, func(p *corev1.Pod) bool {
			if p.Status.Phase == corev1.PodFailed {
				return false
			}
			unfinished = append(unfinished, p)
			return true
		})
		ignored = append(ignored, unfinished...)
	case r.Job.DeletionTimestamp != nil:
		ignored = append(ignored, unfinished...)
	default:
		ignored = append(ignored, r.neverStarted()...)
	}
	if r.Job.DeletionTimestamp != nil {
		ignored = append(ignored, r.unselected()...)
	}
	if !r.end.decided() {
		failed, ignored = slices.DeleteFunc(failed, r.mustStay), slices.DeleteFunc(ignored, r.mustStay)
	}
	slices.SortFunc(failed, podutil.ByCreation)
	return failed, ignored
}

// unfinished returns the pods with a finalizer that do not count as ended and are not listed. Unless the Job is being
// deleted, those are left out that are still to be deleted.
func (r *report) unfinished() (pods []*corev1.Pod) {
	for _, p := range slices.Concat(r.active, r.terminating) {
		ends := p.DeletionTimestamp != nil || r.deleted[p.UID] || r.Job.DeletionTimestamp != nil
		if ends && workloads.Tracked(p) && !r.listed[p.UID] && !hasFailed(r.Job, p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// neverStarted returns the pods of a suspended Job that were deleted before they were assigned to a node. No kubelet
// will end them, and the Job does not replace them, so they lose their finalizer without being counted, like those
// that the Job deletes itself.
func (s view) neverStarted() (pods []*corev1.Pod) {
	for _, p := range s.terminating {
		if workloads.Suspended(s.Job) && p.Spec.NodeName == "" && workloads.Tracked(p) && !s.listed[p.UID] &&
			!hasFailed(s.Job, p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// unselected returns the pods with a finalizer that the Job controls although they do not match its selector. A Job
// that is being deleted releases none of them, and if it is deleted in the foreground, it waits for all (JOB-18).
func (r *report) unselected() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(r.Pods), func(p *corev1.Pod) bool {
		return !workloads.Tracked(p) || !metav1.IsControlledBy(p, r.Job) || r.selector.Matches(labels.Set(p.Labels))
	})
}

// countIndexes writes which indexes are done, with those of the given pods (JOB-69).
func (r *report) countIndexes(succeeded, failed []*corev1.Pod) {
	if !workloads.Indexed(r.Job) {
		return
	}
	var done, lost []int
	for _, p := range succeeded {
		index, _ := indexOf(p)
		done = append(done, index)
	}
	for _, p := range failed {
		if index, ok := indexOf(p); ok && r.failedIndexes.has(index) && failsIndex(r.Job, p, r.actions[p.UID]) {
			lost = append(lost, index)
		}
	}
	completed := r.completedBefore.with(done...)
	r.status.CompletedIndexes, r.status.Succeeded = completed.String(), int32(completed.count())
	if workloads.Completions(r.Job) != int(ptr.Deref(r.Job.Spec.Parallelism, 1)) {
		// The server refuses a count that falls, also where indexes are gone with what completions were (JOB-64).
		r.status.Succeeded = max(r.status.Succeeded, r.Job.Status.Succeeded)
	}
	r.status.FailedIndexes = nil
	if workloads.HasLimitPerIndex(r.Job) {
		r.status.FailedIndexes = ptr.To(r.failedBefore.with(lost...).String())
	}
}

// finish writes the interim condition and, when all pods are counted and gone, the final one (JOB-50, JOB-61). It
// returns the events about that.
func (r *report) finish(now time.Time) {
	if !r.end.decided() {
		return
	}
	if !workloads.HasJobCondition(r.status, r.end.interim) {
		setCondition(&r.status, r.end.interim, corev1.ConditionTrue, r.end.reason, r.end.message, now)
	}
	lists := r.status.UncountedTerminatedPods
	if r.left > 0 || *r.status.Terminating > 0 || len(lists.Succeeded)+len(lists.Failed) > 0 ||
		slices.ContainsFunc(r.mine, workloads.Tracked) {
		return
	}
	setCondition(&r.status, r.end.final(), corev1.ConditionTrue, r.end.reason, r.end.message, now)
	wanted := r.Job.Spec.Completions
	if r.status.StartTime == nil && !(workloads.Suspended(r.Job) && wanted != nil && *wanted == 0) {
		// of a suspended Job; the server refuses an end without a start (JOB-64)
		r.status.StartTime = &metav1.Time{Time: now}
	}
	if r.end.failing() {
		r.event(corev1.EventTypeWarning, r.end.reason, r.end.message)
		return
	}
	completed := metav1.NewTime(now)
	if started := r.status.StartTime; started != nil && completed.Before(started) {
		completed = *started // by the clock of a leader before; the server refuses an end before the start
	}
	r.status.CompletionTime = &completed
	if wanted != nil && r.status.Succeeded > *wanted && !workloads.Indexed(r.Job) { // of which indexes may be gone
		r.event(corev1.EventTypeWarning, "TooManySucceededPods",
			"Too many succeeded pods running after completion count reached")
	}
	r.event(corev1.EventTypeNormal, "Completed", "Job completed")
}

// event adds an event about the Job.
func (r *report) event(kind, reason, message string) {
	r.events = append(r.events,
		plan.RecordEvent{Object: r.Job, Event: plan.Event{Type: kind, Reason: reason, Message: message}})
}

// suspend writes whether the Job is suspended. A Job that never was has no such condition (JOB-80, JOB-81).
func (r *report) suspend(now time.Time) {
	switch is, was := workloads.Suspended(r.Job), workloads.HasJobCondition(r.status, batchv1.JobSuspended); {
	case r.end.decided() || r.Job.DeletionTimestamp != nil:
	case is && !was && r.left == 0:
		setCondition(&r.status, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now)
		r.status.StartTime = nil
		r.event(corev1.EventTypeNormal, "Suspended", "Job suspended")
	case !is && was:
		setCondition(&r.status, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now)
		r.status.StartTime = &metav1.Time{Time: now}
		r.event(corev1.EventTypeNormal, "Resumed", "Job resumed")
	}
}

// setCondition puts a condition into the status, in the place of one of its type.
func setCondition(s *batchv1.JobStatus, t batchv1.JobConditionType, status corev1.ConditionStatus, reason,
	message string, now time.Time) {
	at := metav1.NewTime(now)
	c := batchv1.JobCondition{Type: t, Status: status, Reason: reason, Message: message, LastProbeTime: at,
		LastTransitionTime: at}
	if before := workloads.JobCondition(*s, t); before != nil {
		*before = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

// untrackAll removes finalizers. That of a pod which is neither listed nor has ended is removed only from the version
// that was observed, because the pod may have ended meanwhile.
func (r *report) untrackAll(pods []*corev1.Pod) plan.Step {
	lists := r.status.UncountedTerminatedPods
	listed := make(map[types.UID]bool, len(lists.Failed))
	for _, uid := range slices.Concat(lists.Failed, lists.Succeeded) {
		listed[uid] = true
	}
	var each plan.Each
	for _, p := range pods {
		step := untrack(p, "the pod is listed, or will not be counted")
		step.CheckVersion = !listed[p.UID] && !podutil.Finished(p) && r.Job.DeletionTimestamp == nil
		each.Sequences = append(each.Sequences, []plan.Step{step})
	}
	return each
}

// unchanged reports whether there is nothing to write. A server that does not know a field drops it.
func unchanged(before, after batchv1.JobStatus) bool {
	before.Ready = ptr.To(ptr.Deref(before.Ready, 0))
	before.Terminating = ptr.To(ptr.Deref(before.Terminating, 0))
	if before.UncountedTerminatedPods == nil {
		before.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	return equality.Semantic.DeepEqual(before, after)
}

// onlyProgress reports whether the change is nothing that users wait for.
func onlyProgress(before, after batchv1.JobStatus) bool {
	return equality.Semantic.DeepEqual(before.Conditions, after.Conditions) &&
		equality.Semantic.DeepEqual(before.StartTime, after.StartTime)
}
