package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Failed pods are replaced with a delay, which doubles with each failure in a row. The failed pods that exist show how
// many there were, so a new leader does not start a crash loop over; and the process remembers it, so whoever deletes
// the failed pods does not either. Pods that are being deleted have not failed by themselves, and are replaced at once.
const (
	firstDelay   = 10 * time.Second
	longestDelay = 10 * time.Minute
)

// delay is how long to wait after so many failures in a row (JOB-30).
func delay(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return plan.Doubling(firstDelay, longestDelay, failures-1)
}

// memory is what the process remembers of the failures of a Job. Its method see reads it and returns the next one,
// which the decision carries and remember keeps. With a limit for each index, annotations of the pods show that.
type memory struct {
	Failures int                // in a row
	Last     time.Time          // when the last of them ended
	Success  time.Time          // the latest; earlier failures do not count
	Counted  map[types.UID]bool // the pods among Failures that exist

	Start time.Time // of a Job with a deadline, as its status says
	Seen  time.Time // when this process has first seen that
}

// see returns what is to be remembered after the Job and its pods were seen; nil for nothing.
func (m *memory) see(now time.Time, s view) *memory {
	next := m.seeFailures(now, s)
	start := s.Job.Status.StartTime
	if start == nil || s.Job.Spec.ActiveDeadlineSeconds == nil {
		return next
	}
	if next == nil {
		next = &memory{}
	}
	next.Start, next.Seen = start.Time, now
	if m != nil && m.Start.Equal(start.Time) {
		next.Seen = m.Seen
	}
	return next
}

// seeFailures is about failures in a row (JOB-30, JOB-31).
func (m *memory) seeFailures(now time.Time, s view) *memory {
	if workloads.HasLimitPerIndex(s.Job) {
		return nil
	}
	next := memory{Success: latestSuccess(s), Counted: map[types.UID]bool{}}
	var before map[types.UID]bool
	switch {
	case m == nil:
	case next.Success.After(m.Success):
	default:
		next.Failures, next.Last, next.Success, before = m.Failures, m.Last, m.Success, m.Counted
	}
	var found []*corev1.Pod
	for _, p := range failuresSince(s, next.Success) {
		next.Counted[p.UID] = true
		if !before[p.UID] {
			found = append(found, p)
		}
	}
	next.Failures += len(found)
	for _, p := range found {
		next.Last = workloads.Later(next.Last, believedEnd(now, p, next.Failures))
	}
	// Failures from before a success are not to count again when the pod that succeeded is gone.
	if next.Failures == 0 && (next.Success.IsZero() || !slices.ContainsFunc(s.mine, ownFailure)) {
		return nil
	}
	return &next
}

// remember keeps what was seen: a failed pod was, whatever becomes of the writes.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory { return d.Remembered }

// latestSuccess is when a pod of the Job has last succeeded; zero if none has.
func latestSuccess(s view) (success time.Time) {
	for _, p := range s.mine {
		if p.Status.Phase == corev1.PodSucceeded {
			success = workloads.Later(success, ended(p))
		}
	}
	return success
}

// failuresSince returns the pods that exist and have failed by themselves since the success.
func failuresSince(s view, success time.Time) (failed []*corev1.Pod) {
	for _, p := range s.mine {
		if ownFailure(p) && ended(p).After(success) {
			failed = append(failed, p)
		}
	}
	return failed
}

// backoff returns until when no pod is created, because of so many failures since the latest success (JOB-30,
// JOB-31): the larger of what the pods and the memory say.
func backoff(now time.Time, s view) (until time.Time, failures int) {
	success := latestSuccess(s)
	if s.Remembered != nil {
		success = workloads.Later(success, s.Remembered.Success)
	}
	failed := failuresSince(s, success)
	failures = len(failed)
	if m := s.Remembered; m != nil {
		failures = max(failures, m.Failures)
		until = m.Last.Add(delay(failures))
	}
	for _, p := range failed {
		until = workloads.Later(until, retryAt(now, p, failures))
	}
	return until, failures
}

// indexBackoff returns until when no pod of the index is created whose last failed pod this is (JOB-33).
func indexBackoff(now time.Time, last *corev1.Pod) time.Time {
	if last == nil || !ownFailure(last) {
		return time.Time{}
	}
	return retryAt(now, last, failuresOf(last).all()+1)
}

// retryAt is when the delay after a pod is over that has failed after so many failures in a row.
func retryAt(now time.Time, p *corev1.Pod, failures int) time.Time {
	return believedEnd(now, p, failures).Add(delay(failures))
}

// believedEnd is when the pod ended. The clock of its node may be ahead: an end in the future by more than the delay
// is not believed, and the time of the pod's creation, which is by the clock of the server, takes its place. Both
// stay the same however late this is asked.
func believedEnd(now time.Time, p *corev1.Pod, failures int) time.Time {
	if at := ended(p); !at.After(now.Add(delay(failures))) {
		return at
	}
	return p.CreationTimestamp.Time
}

// ownFailure reports whether a pod has failed by itself, and not because it is being deleted.
func ownFailure(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil
}

// ended is when the pod ended, as far as it shows (JOB-32).
func ended(p *corev1.Pod) time.Time {
	var last time.Time
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range statuses {
			if c.State.Terminated != nil {
				last = workloads.Later(last, c.State.Terminated.FinishedAt.Time)
			}
		}
	}
	ready := podutil.ReadyCondition(p)
	switch {
	case !last.IsZero():
		return last
	case ready != nil && ready.Status == corev1.ConditionFalse && !ready.LastTransitionTime.IsZero():
		return ready.LastTransitionTime.Time
	case p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil:
		return p.DeletionTimestamp.Add(-workloads.Seconds(*p.DeletionGracePeriodSeconds))
	case p.DeletionTimestamp != nil:
		return p.DeletionTimestamp.Time
	}
	return p.CreationTimestamp.Time
}
