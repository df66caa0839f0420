package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// Failed pods are replaced with a delay, which doubles with each failure in a row. It follows from the failed pods that exist, so a new
// leader does not start a crash loop over. Pods that are being deleted have not failed by themselves, and are replaced at once.
const (
	firstDelay   = 10 * time.Second
	longestDelay = 10 * time.Minute
)

// delay is how long to wait after so many failures in a row (JOB-30).
func delay(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(firstDelay<<min(failures-1, 10), longestDelay)
}

// backoff returns until when no pod is created, because of so many failures since the latest success (JOB-30, JOB-31).
func backoff(now time.Time, s snapshot) (until time.Time, failures int) {
	var success time.Time
	for _, p := range s.mine {
		if p.Status.Phase == corev1.PodSucceeded {
			success = later(success, ended(p))
		}
	}
	var failed []*corev1.Pod
	for _, p := range s.mine {
		if ownFailure(p) && ended(p).After(success) {
			failed = append(failed, p)
		}
	}
	for _, p := range failed {
		until = later(until, retryAt(now, p, len(failed)))
	}
	return until, len(failed)
}

// indexBackoff returns until when no pod of the index is created whose last failed pod this is (JOB-33).
func indexBackoff(now time.Time, last *corev1.Pod) time.Time {
	if last == nil || !ownFailure(last) {
		return time.Time{}
	}
	return retryAt(now, last, failuresOf(last).all()+1)
}

// retryAt is when the delay after a pod is over that has failed after so many failures in a row. The clock of its node may be ahead: an end
// in the future by more than the delay is not believed, and the pod's creation, which the server's clock tells, stands for it. Neither moves as
// time goes by.
func retryAt(now time.Time, p *corev1.Pod, failures int) time.Time {
	at, wait := ended(p), delay(failures)
	if at.After(now.Add(wait)) {
		at = p.CreationTimestamp.Time
	}
	return at.Add(wait)
}

func ownFailure(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil
}

// ended is when the pod ended, as far as it tells (JOB-32).
func ended(p *corev1.Pod) time.Time {
	var last time.Time
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range statuses {
			if c.State.Terminated != nil {
				last = later(last, c.State.Terminated.FinishedAt.Time)
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
		return p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
	case p.DeletionTimestamp != nil:
		return p.DeletionTimestamp.Time
	}
	return p.CreationTimestamp.Time
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
