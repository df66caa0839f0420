package resourcequota

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// flushAfter is how long changes are gathered before their quotas are looked at: many objects go together.
	flushAfter = 100 * time.Millisecond
	// flushEvery is the time between two such looks, so that a namespace in which objects come and go all the time does not have its
	// quotas written for each.
	flushEvery = 500 * time.Millisecond
)

// dirty gathers the quotas whose sums have changed.
type dirty struct {
	signal chan struct{}

	mu   sync.Mutex
	keys map[plan.Key]bool
}

func (d *dirty) add(key plan.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys[key] {
		return
	}
	if d.keys == nil {
		d.keys = map[plan.Key]bool{}
	}
	d.keys[key] = true
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

func (d *dirty) take() map[plan.Key]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := d.keys
	d.keys = nil
	return keys
}

// run enqueues what was gathered, until ctx ends.
func (d *dirty) run(ctx context.Context, enqueue func(plan.Key)) {
	pause := func(wait time.Duration) bool {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		select {
		case <-d.signal:
		case <-ctx.Done():
			return
		}
		if !pause(flushAfter) {
			return
		}
		for key := range d.take() {
			enqueue(key)
		}
		if !pause(flushEvery - flushAfter) {
			return
		}
	}
}

// sameSpec reports whether two versions of a quota limit the same.
func sameSpec(a, b *corev1.ResourceQuota) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) }
