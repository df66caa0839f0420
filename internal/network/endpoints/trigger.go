package endpoints

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// Times are what is remembered of a service from one reconcile to the next, to know when the changes took place that
// led to a write (EP-31). It is committed when that write was carried out, so that a change is reported until a write
// has succeeded. Times are in Unix seconds: those of API objects are no finer.
type Times struct {
	Created int64                        // when the service was
	Ready   cowmap.Map[types.UID, int64] // when readiness has last changed, by pod
}

// With returns the times with those of some pods replaced, and without those of pods that are gone, at a cost that
// hardly depends on how many others there are. A pod may be among both: it is not gone then.
func (t *Times) With(changed *Times, gone map[types.UID]bool) *Times {
	after := &Times{Created: changed.Created, Ready: t.Ready.Clone()}
	for uid := range gone {
		if _, known := t.Ready.Get(uid); !known {
			continue
		}
		if _, is := changed.Ready.Get(uid); !is {
			after.Ready.Delete(uid)
		}
	}
	for uid, at := range changed.Ready.All() {
		if last, known := t.Ready.Get(uid); !known || last != at {
			after.Ready.Set(uid, at)
		}
	}
	return after
}

// TimesOf returns what is to be remembered of a service and its pods.
func TimesOf(service *corev1.Service, pods []*corev1.Pod) *Times {
	ready := make(map[types.UID]int64, len(pods))
	for _, p := range pods {
		if c := podutil.ReadyCondition(p); c != nil && !c.LastTransitionTime.IsZero() {
			ready[p.UID] = c.LastTransitionTime.Unix()
		}
	}
	return &Times{Created: service.CreationTimestamp.Unix(), Ready: cowmap.Of(ready)}
}

// EarliestChange returns when the first of the changes since before took place, which is nil for a service that is
// reconciled for the first time. It is zero if there is no change to report. Now is of all pods that may have changed.
func EarliestChange(before, now *Times) (first time.Time) {
	if before == nil {
		return time.Unix(now.Created, 0)
	}
	earlier := func(at int64) {
		if t := time.Unix(at, 0); first.IsZero() || t.Before(first) {
			first = t
		}
	}
	for uid, at := range now.Ready.All() {
		if last, known := before.Ready.Get(uid); !known || at > last {
			earlier(at)
		}
	}
	if now.Created > before.Created {
		earlier(now.Created)
	}
	return first
}
