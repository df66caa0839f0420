package daemonset

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A pod that has failed is replaced at once. If its successors on the node fail too, they are replaced ever more
// rarely (DS-35).
const (
	firstDelay   = time.Second // doubled at each deletion
	longestDelay = 15 * time.Minute
	forgiven     = 30 * time.Minute // after which a node begins anew
)

// memory is what is remembered of a DaemonSet from one reconcile to the next: which failed pods were deleted,
// by node. Its method see reads it and returns the next one, which the decision carries and remember keeps.
type memory struct {
	Generation int64 // that was observed; a newer one may have mended what made the pods fail
	Failures   map[string]failure
}

// failure is the latest deletion of a failed pod on a node.
type failure struct {
	Deleted time.Time
	Delay   time.Duration // until the next
	// Pods are the pods that were to be deleted. As long as they are there, they were not: the limit left them out
	// (DS-28), something else came first, or the server refused it. Then nothing has been deleted that the node would
	// have to wait for.
	Pods []types.UID
}

// see returns until when the failed pods of each node are left alone, and what is to be remembered; nil for nothing.
// Where they are not left alone, they are to be deleted now.
func (m *memory) see(now time.Time, s view) (backoff map[string]time.Time, next *memory) {
	next = &memory{Generation: s.Set.Status.ObservedGeneration, Failures: map[string]failure{}}
	if m != nil && m.Generation == next.Generation {
		maps.Copy(next.Failures, m.Failures)
		maps.DeleteFunc(next.Failures, func(_ string, f failure) bool { return now.Sub(f.Deleted) >= forgiven })
	}
	for _, n := range s.Nodes {
		pods := failedPods(s.on[n.Name])
		if n.Eligibility == excluded || len(pods) == 0 {
			continue
		}
		before, known := next.Failures[n.Name]
		switch until := before.Deleted.Add(before.Delay); {
		case known &&
			!slices.ContainsFunc(pods, func(uid types.UID) bool { return !slices.Contains(before.Pods, uid) }):
			next.Failures[n.Name] = failure{Deleted: now, Delay: before.Delay, Pods: pods}
		case known && now.Before(until):
			if backoff == nil {
				backoff = map[string]time.Time{}
			}
			backoff[n.Name] = until
		default:
			next.Failures[n.Name] = failure{Deleted: now, Delay: min(max(firstDelay, 2*before.Delay), longestDelay),
				Pods: pods}
		}
	}
	if len(next.Failures) == 0 {
		return backoff, nil
	}
	return backoff, next
}

// remember keeps what was seen: a failed pod was, whatever becomes of the writes.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory { return d.Remembered }

// failedPods returns the uids of the pods that have failed and are not being deleted.
func failedPods(pods []*corev1.Pod) (uids []types.UID) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodFailed {
			uids = append(uids, p.UID)
		}
	}
	return uids
}
