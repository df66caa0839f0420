package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/jobutil"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a Job has observed, see newSnapshot. The objects belong to shared caches.
type snapshot struct {
	Job *batchv1.Job
	// Pods are those that the Job controls, by its uid, and the orphans of its namespace.
	Pods  []*corev1.Pod
	Began time.Time // when the reconcile began, for metrics
	// Remembered is what the process remembers of the Job's failures, Pods included; nil for nothing.
	Remembered *memory

	claimed // follows from Job and Pods
}

// claimed are the Job's own pods, the steps that make them so, and what they mean for the counters.
type claimed struct {
	selector labels.Selector // nil: the Job is left alone
	invalid  error           // the selector makes no sense; then there are no pods and no steps
	mine     []*corev1.Pod
	claims   []plan.Step
	ledger
}

// newSnapshot returns the snapshot of a Job that is not left alone, and its pods.
func newSnapshot(job *batchv1.Job, pods []*corev1.Pod) snapshot {
	s := snapshot{Job: job, Pods: pods}
	selector, err := selectorOf(job)
	if err != nil {
		s.invalid = err
		return s
	}
	s.selector = selector
	s.mine, s.claims = claim(s)
	s.ledger = newLedger(s)
	return s
}

// UnmarshalJSON implements json.Unmarshaler. What follows from the Job and its pods is not stored.
func (s *snapshot) UnmarshalJSON(data []byte) error {
	type plain snapshot // without this method
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if !leftAlone(s.Job) {
		s.claimed = newSnapshot(s.Job, s.Pods).claimed
	}
	return nil
}

// leftAlone reports whether there is nothing to do for a Job: it has finished (JOB-9), or another controller manages it (JOB-13).
func leftAlone(j *batchv1.Job) bool { return foreign(j) || jobutil.Finished(j) != nil }

func foreign(j *batchv1.Job) bool {
	return j.Spec.ManagedBy != nil && *j.Spec.ManagedBy != batchv1.JobControllerName
}

// condition returns the condition of a type, nil if there is none.
func condition(s batchv1.JobStatus, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// holds reports whether the condition of a type is True.
func holds(s batchv1.JobStatus, t batchv1.JobConditionType) bool {
	c := condition(s, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// selectorOf returns the Job's selector. One that selects everything, or is missing, is an error: the server refuses it.
func selectorOf(j *batchv1.Job) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("left alone, selector: %w", err)
	case j.Spec.Selector == nil || selector.Empty():
		return nil, errors.New("left alone, selector: it is empty")
	}
	return selector, nil
}

// untrack returns the step that removes the finalizer.
func untrack(p *corev1.Pod, why string) plan.Change {
	after := p.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return plan.Change{Old: p, New: after, Why: why}
}

// claim sorts out the Job's own pods, those included that have ended (JOB-12). An adopted pod gains the finalizer, unless it has ended: then it
// may have been counted before. A released one loses it.
func claim(s snapshot) (mine []*corev1.Pod, steps []plan.Step) {
	owned := map[types.UID]bool{}
	for _, p := range s.Pods {
		if metav1.IsControlledBy(p, s.Job) {
			owned[p.UID] = true
		}
	}
	// A pod whose controller changes while the caches are read may be seen twice; it must not be counted twice.
	candidates := slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
		return owned[p.UID] && !metav1.IsControlledBy(p, s.Job)
	})
	mine, steps = plan.Claim(s.Job, jobKind, s.selector, candidates)
	for _, step := range steps {
		for _, sequence := range step.(plan.Each).Sequences {
			change := sequence[0].(plan.Change)
			switch pod := change.New.(*corev1.Pod); {
			case !change.Adopt:
				pod.Finalizers = untrack(pod, "").New.GetFinalizers()
			case !jobutil.Tracked(pod) && !podutil.Finished(pod):
				pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
			}
		}
	}
	return mine, steps
}

// ledger is what the Job's pods mean for its counters.
type ledger struct {
	active      []*corev1.Pod
	terminating []*corev1.Pod // being deleted, not ended yet

	// The counters, which include those whose finalizer is gone; and the uids that remain in the lists. For Indexed Jobs the number of
	// succeeded pods is not summed up, but is that of completed indexes.
	succeeded, failed                int32
	listedSucceeded, listedFailed    []types.UID
	listed                           map[types.UID]bool // of both lists
	completedBefore, failedBefore    indexes            // as the status has them
	completed, failedIndexes         indexes            // with what is new
	newSucceeded, newFailed, counted []*corev1.Pod
	ignored                          []*corev1.Pod // have ended and are not counted
	held                             map[int]*corev1.Pod
	actions                          map[types.UID]ruling // of the Job's pod failure policy
}

// newLedger reads the pods in the order of their creation. The lists of a ledger are:
//
//	counted       listed in the status: the finalizer can be removed
//	newSucceeded  have succeeded, not listed yet; of Indexed Jobs one for each index that is not completed yet
//	newFailed     have failed, not listed yet
//	ignored       have ended, but do not count: by the pod failure policy, without a valid index, or of an index that is done
//	held          by index: have failed, and must exist until there is a replacement that knows how often the index has failed (JOB-67). They
//	              are among newFailed or ignored, but keep their finalizer, and are not listed yet: as indexes in back-off leave their places
//	              to later ones (JOB-124), nothing bounds their number. One that lost its replacement again may be among counted
func newLedger(s snapshot) ledger {
	l := ledger{
		succeeded: s.Job.Status.Succeeded, failed: s.Job.Status.Failed,
		held: map[int]*corev1.Pod{}, actions: map[types.UID]ruling{},
	}
	l.settle(s)
	if indexed(s.Job) {
		l.completedBefore = parseIndexes(s.Job.Status.CompletedIndexes, completions(s.Job))
		l.succeeded = int32(l.completedBefore.count())
		if perIndex(s.Job) && s.Job.Status.FailedIndexes != nil {
			l.failedBefore = parseIndexes(*s.Job.Status.FailedIndexes, completions(s.Job))
		}
	}
	l.completed, l.failedIndexes = l.completedBefore, l.failedBefore
	var succeeded, failed []*corev1.Pod
	for _, p := range s.mine {
		switch {
		case podutil.Active(p):
			l.active = append(l.active, p)
		case podutil.Terminating(p):
			l.terminating = append(l.terminating, p)
		}
		switch {
		case !jobutil.Tracked(p): // counted already, or given up (JOB-44)
		case l.listed[p.UID]:
			l.counted = append(l.counted, p)
		case p.Status.Phase == corev1.PodSucceeded:
			succeeded = append(succeeded, p)
		case hasFailed(s.Job, p):
			failed = append(failed, p)
		}
	}
	slices.SortFunc(succeeded, byCreation)
	slices.SortFunc(failed, byCreation)
	l.succeed(s.Job, succeeded)
	l.fail(s.Job, failed)
	if perIndex(s.Job) && s.Job.DeletionTimestamp == nil && !writtenEnd(s.Job).decided() {
		l.hold(s)
	}
	return l
}

// settle moves the listed pods whose finalizer is gone to the counters (JOB-41).
func (l *ledger) settle(s snapshot) {
	lists := s.Job.Status.UncountedTerminatedPods
	if lists == nil {
		return
	}
	remains := map[types.UID]bool{}
	for _, p := range s.Pods {
		if jobutil.Tracked(p) { // also if somebody has made it an orphan: it may come back
			remains[p.UID] = true
		}
	}
	seen := map[types.UID]bool{}
	l.listed = map[types.UID]bool{}
	settle := func(uids []types.UID, counter *int32, list *[]types.UID) {
		for _, uid := range uids {
			switch {
			case seen[uid]:
			case remains[uid]:
				*list = append(*list, uid)
				l.listed[uid] = true
			default:
				*counter++
			}
			seen[uid] = true
		}
	}
	settle(lists.Failed, &l.failed, &l.listedFailed) // what is listed as failed stays so (JOB-44)
	settle(lists.Succeeded, &l.succeeded, &l.listedSucceeded)
}

func (l *ledger) succeed(j *batchv1.Job, pods []*corev1.Pod) {
	if !indexed(j) {
		l.newSucceeded = pods
		return
	}
	var more []int
	seen := map[int]bool{}
	for _, p := range pods {
		index, ok := indexOf(p)
		if !ok || index >= completions(j) || l.completedBefore.has(index) || l.failedBefore.has(index) || seen[index] {
			l.ignored = append(l.ignored, p)
			continue
		}
		seen[index] = true
		more = append(more, index)
		l.newSucceeded = append(l.newSucceeded, p)
	}
	l.completed = l.completedBefore.with(more...)
}

func (l *ledger) fail(j *batchv1.Job, pods []*corev1.Pod) {
	var more []int
	for _, p := range pods {
		index, ok := indexOf(p)
		if indexed(j) && (!ok || index >= completions(j)) {
			l.ignored = append(l.ignored, p)
			continue
		}
		r := rule(j, p)
		if r.action != "" {
			l.actions[p.UID] = r
		}
		if r.action == batchv1.PodFailurePolicyActionIgnore {
			l.ignored = append(l.ignored, p)
			continue
		}
		l.newFailed = append(l.newFailed, p)
		if failsIndex(j, p, r) && !l.completed.has(index) && (p.DeletionTimestamp == nil || !writtenEnd(j).decided()) {
			more = append(more, index)
		}
	}
	l.failedIndexes = l.failedBefore.with(more...)
}

// failsIndex reports whether the failure of the pod is the end of its index (JOB-68). That of a pod which was deleted because the Job ends
// is not: see fail.
func failsIndex(j *batchv1.Job, p *corev1.Pod, r ruling) bool {
	return perIndex(j) && (r.action == batchv1.PodFailurePolicyActionFailIndex ||
		failuresOf(p).counted >= int(*j.Spec.BackoffLimitPerIndex))
}

// hold finds the last failed pod of each index that is to run again and does not yet.
func (l *ledger) hold(s snapshot) {
	busy := l.busy(s.Job)
	for _, p := range slices.Concat(l.newFailed, l.ignored, l.counted) {
		index, ok := indexOf(p)
		if !ok || !hasFailed(s.Job, p) || index >= completions(s.Job) || busy[index] || l.completed.has(index) || l.failedIndexes.has(index) {
			continue
		}
		if before := l.held[index]; before == nil || laterFailure(before, p) {
			l.held[index] = p
		}
	}
}

// holds reports whether the pod must keep its finalizer for now.
func (l *ledger) holds(p *corev1.Pod) bool {
	index, ok := indexOf(p)
	return ok && l.held[index] == p
}

// busy returns the indexes that have a pod already: an active one or, where pods are replaced only when they have ended, one that is
// being deleted (JOB-28).
func (l *ledger) busy(j *batchv1.Job) map[int]bool {
	busy := map[int]bool{}
	pods := l.active
	if replacesLate(j) {
		pods = slices.Concat(l.active, l.terminating)
	}
	for _, p := range pods {
		if index, ok := indexOf(p); ok {
			busy[index] = true
		}
	}
	return busy
}

// laterFailure reports whether b says more about the failures of an index than a.
func laterFailure(a, b *corev1.Pod) bool {
	return cmp.Or(cmp.Compare(failuresOf(a).all(), failuresOf(b).all()), ended(a).Compare(ended(b)), cmp.Compare(a.UID, b.UID)) < 0
}

// totalSucceeded is the number of pods, or indexes, that have succeeded, whether or not they are counted yet.
func (l *ledger) totalSucceeded(j *batchv1.Job) int {
	if indexed(j) {
		return l.completed.count()
	}
	return int(l.succeeded) + len(l.listedSucceeded) + len(l.newSucceeded)
}

// totalFailed likewise (JOB-63).
func (l *ledger) totalFailed() int {
	return int(l.failed) + len(l.listedFailed) + len(l.newFailed)
}

// hasFailed reports whether the pod counts as failed. Unless the Job replaces pods only when they have ended, one that is being
// deleted does (JOB-28).
func hasFailed(j *batchv1.Job, p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || podutil.Terminating(p) && !replacesLate(j)
}

func replacesLate(j *batchv1.Job) bool {
	policy := j.Spec.PodReplacementPolicy
	return j.Spec.PodFailurePolicy != nil || policy != nil && *policy == batchv1.Failed
}

func indexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

func perIndex(j *batchv1.Job) bool { return indexed(j) && j.Spec.BackoffLimitPerIndex != nil }

// completions is the wanted number of completions, zero if there is none.
func completions(j *batchv1.Job) int {
	if j.Spec.Completions == nil {
		return 0
	}
	return int(max(0, *j.Spec.Completions))
}

func parallelism(j *batchv1.Job) int {
	if j.Spec.Parallelism == nil {
		return 1
	}
	return int(max(0, *j.Spec.Parallelism))
}

func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

func byCreation(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}
