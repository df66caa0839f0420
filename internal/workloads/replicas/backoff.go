package replicas

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Pods that fail at start (a kubelet that rejects them, a volume that is missing) are replaced at once a few times, as
// users are used to. If that continues, it helps nobody to do it a hundred times a minute: the pauses grow.
const (
	freeFailures = 5                // so many in a row are replaced at once
	firstPause   = 10 * time.Second // after one more; it doubles with each further one
	longestPause = 5 * time.Minute
	ranWell      = 10 * time.Minute // a pod that ran for so long has not failed at start, and ends the row
)

// startBackoff is a row of failures at start, see backoffOf. The zero startBackoff is none that would matter.
type startBackoff struct {
	failures int         // in a row
	last     *corev1.Pod // the newest that failed
	pause    time.Duration
	until    time.Time // nothing is created before
}

// backoffOf counts how often in a row the set's pods have failed at start. It counts the pods that have failed and are
// still there, so it survives a restart of the process; who deletes them starts anew.
func backoffOf(now time.Time, s view) startBackoff {
	if s.Disabled.PodFailureBackoff {
		return startBackoff{}
	}
	failed, reset := failedAtStart(now, s)
	failed = slices.DeleteFunc(failed, func(p *corev1.Pod) bool { return !p.CreationTimestamp.After(reset) })
	if len(failed) == 0 {
		return startBackoff{}
	}
	slices.SortFunc(failed, podutil.ByCreation)
	b := startBackoff{failures: inARow(failed, replicas(s.Set)), last: failed[len(failed)-1]}
	if b.failures <= freeFailures {
		return startBackoff{}
	}
	b.pause = plan.Doubling(firstPause, longestPause, b.failures-freeFailures-1)
	b.until = s.Failures.Last.Add(b.pause)
	return b
}

// failedAtStart returns the set's own pods that have failed before they ran well, and the time before which failures
// don't count any more.
func failedAtStart(now time.Time, s view) (failed []*corev1.Pod, reset time.Time) {
	reset = s.Failures.TemplateSince
	for _, p := range s.Pods {
		if !metav1.IsControlledBy(p, s.Set) {
			continue
		}
		well := p.CreationTimestamp.Add(ranWell)
		switch {
		case podutil.Finished(p) && ended(p).Before(well):
			if p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil {
				failed = append(failed, p)
			}
		case podutil.Finished(p), podutil.Ready(p) && !now.Before(well):
			if well.After(reset) {
				reset = well
			}
		}
	}
	return failed, reset
}

// ended is when a finished pod stopped being ready; one that never said so has not run.
func ended(p *corev1.Pod) time.Time {
	if c := podutil.ReadyCondition(p); c != nil && c.Status != corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return p.CreationTimestamp.Time
}

// inARow counts failures of the set, not of its pods: those that were created within a second of each other count as
// one, but as no fewer than it takes to fail that many pods with all replicas at a time.
func inARow(failed []*corev1.Pod, replicas int) int {
	waves := 0
	var began time.Time
	for _, p := range failed {
		if waves == 0 || p.CreationTimestamp.Sub(began) >= time.Second {
			waves++
			began = p.CreationTimestamp.Time
		}
	}
	replicas = max(1, replicas)
	return max(waves, (len(failed)+replicas-1)/replicas)
}

// pausing reports whether nothing is to be created yet.
func (b startBackoff) pausing(now time.Time) bool { return now.Before(b.until) }

// String says in words why pods are not replaced yet.
func (b startBackoff) String() string {
	reason := cmp.Or(b.last.Status.Reason, "no reason given")
	return fmt.Sprintf(
		"pods have failed at start %d times in a row, the last was %s (%s); they are replaced with a pause of %v",
		b.failures, b.last.Name, reason, b.pause)
}

// failures is what the pods of a set don't show about their failures.
type failures struct {
	Last          time.Time // when the newest failure was seen
	TemplateSince time.Time // when the template was seen to change; zero if it was not
}

// failureHistory remembers what [failures] says of the sets that have failed pods. It is the memory of a key.
type failureHistory struct {
	template *corev1.PodTemplateSpec
	newest   *corev1.Pod
	failures
}

// see notes what has changed since the last reconcile. Of what had happened before the first one it only knows what
// the pods say themselves.
func (w *failureHistory) see(now time.Time, s snapshot) *failureHistory {
	var newest *corev1.Pod
	for _, p := range s.Pods {
		if p.Status.Phase == corev1.PodFailed && metav1.IsControlledBy(p, s.Set) &&
			(newest == nil || podutil.ByCreation(newest, p) < 0) {
			newest = p
		}
	}
	if newest == nil {
		return nil
	}
	next := &failureHistory{template: &s.Set.Spec.Template, newest: newest}
	if w == nil {
		next.Last = newest.CreationTimestamp.Time
		if next.Last.After(now) { // by another clock
			next.Last = now
		}
		return next
	}
	next.failures = w.failures
	if w.newest.UID != newest.UID {
		next.Last = now
	}
	if w.template != next.template && !equality.Semantic.DeepEqual(w.template, next.template) {
		next.TemplateSince = now
	}
	return next
}
