package endpoint

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// triggers remembers what services and their pods looked like at the last look, to tell which change led to the next one
// (EP-31). It is the controller's only memory; what comes of it is a plain field of the snapshot.
type triggers struct {
	mu    sync.Mutex
	known map[plan.Key]lastLook
}

type lastLook struct {
	created int64               // when the service was, in Unix seconds, as all times of API objects are
	ready   map[types.UID]int64 // when readiness has last changed, by pod
	kept    time.Time           // of a change that was not written yet
}

func newTriggers() *triggers { return &triggers{known: map[plan.Key]lastLook{}} }

func (t *triggers) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = map[plan.Key]lastLook{}
}

func (t *triggers) forget(key plan.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, key)
}

// next returns when the earliest change since the last look took place, zero if there is none to tell of, and remembers
// this look.
func (t *triggers) next(key plan.Key, service *corev1.Service, pods []*corev1.Pod) time.Time {
	look := lastLook{created: service.CreationTimestamp.Unix(), ready: make(map[types.UID]int64, len(pods))}
	for _, p := range pods {
		if c := podutil.ReadyCondition(p); c != nil && !c.LastTransitionTime.IsZero() {
			look.ready[p.UID] = c.LastTransitionTime.Unix()
		}
	}
	t.mu.Lock()
	last, met := t.known[key]
	t.known[key] = look
	t.mu.Unlock()
	if !met {
		return service.CreationTimestamp.Time
	}
	return earliest(last.kept, since(last, look))
}

// keep holds on to the time of a change that could not be written.
func (t *triggers) keep(key plan.Key, trigger time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if look, met := t.known[key]; met {
		look.kept = earliest(look.kept, trigger)
		t.known[key] = look
	}
}

// since returns the earliest of the changes between two looks.
func since(last, look lastLook) (first time.Time) {
	for uid, at := range look.ready {
		if before, met := last.ready[uid]; !met || at > before {
			first = earliest(first, time.Unix(at, 0))
		}
	}
	if look.created > last.created {
		first = earliest(first, time.Unix(look.created, 0))
	}
	return first
}

// earliest returns the earlier of two times, where zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
