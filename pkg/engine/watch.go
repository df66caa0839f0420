package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 60 * time.Second // the longest back-off: no key is ever given up
)

// sync waits until all caches are filled (CLI-59).
func (r *Runner[S]) sync(ctx context.Context) error {
	for _, w := range r.Watches {
		if !cache.WaitForCacheSync(ctx.Done(), w.Informer.HasSynced) {
			return nil // ctx has ended
		}
		if err := r.shared.Freshness.Usable(w.Kind); err != nil {
			return fmt.Errorf("controller %s: %w", r.Name, err)
		}
	}
	return nil
}

// openQueue begins with an empty memory: a process that leads again knows no more than one that leads for the first time.
func (r *Runner[S]) openQueue() {
	r.mu.Lock()
	r.keys, r.works, r.waiting, r.failing = map[plan.Key]*state{}, works{}, 0, 0
	r.former = &former{}
	r.levels = newLevels()
	r.mu.Unlock()
	r.shared.Explain.clear(r.Name)
	storage := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[plan.Key]{Name: r.Name, Queue: r.levels})
	r.queue = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[plan.Key]{
		Name: r.Name, Queue: storage,
	})
}

// watch registers the event handlers and waits until the objects that exist already have been queued. Handlers come
// only now, so that a standby keeps warm caches and no queue. The returned function takes them off again.
func (r *Runner[S]) watch(ctx context.Context) (stop func(), err error) {
	var undo []func()
	stop = func() {
		for _, f := range undo {
			f()
		}
	}
	var synced []cache.InformerSynced
	for _, w := range r.Watches {
		registration, err := w.Informer.AddEventHandler(r.handler(w))
		if err != nil {
			return stop, fmt.Errorf("controller %s: watch %s: %w", r.Name, w.Kind.Kind, err)
		}
		undo = append(undo, func() { _ = w.Informer.RemoveEventHandler(registration) })
		synced = append(synced, registration.HasSynced)
	}
	cache.WaitForCacheSync(ctx.Done(), synced...)
	return stop, nil
}

func (r *Runner[S]) handler(w Watch) cache.ResourceEventHandler {
	to := intake{r.queue, r.levels, r.former} // of this term: a late delivery must not reach the next one's
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if after, ok := o.(plan.Object); ok && (initial || w.Ignore == nil || !w.Ignore(after)) {
				r.wake(to, w, nil, after, initial)
			}
		},
		UpdateFunc: func(old, new any) {
			before, ok1 := old.(plan.Object)
			after, ok2 := new.(plan.Object)
			if !ok1 || !ok2 {
				return
			}
			resync := before.GetResourceVersion() == after.GetResourceVersion()
			if !resync || w.Resync {
				r.wake(to, w, before, after, resync)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok { // CI-15
				o = missed.Obj
			}
			if before, ok := o.(plan.Object); ok {
				r.wake(to, w, before, nil, false)
			}
		},
	}
}

// intake is where the event handlers of one term put keys.
type intake struct {
	queue  workqueue.TypedDelayingInterface[plan.Key]
	levels *levels
	former *former
}

// wake queues the keys that a change concerns. Keys of objects from before our time are unsettled: another process may
// have written for them moments ago.
func (r *Runner[S]) wake(to intake, w Watch, before, after plan.Object, quiet bool) {
	doubtful := before == nil && (quiet || r.unknown(to.former, w))
	for _, key := range w.Wakes(before, after) {
		if doubtful {
			r.doubt(key)
		}
		at := live
		if quiet {
			at = background
		}
		if w.Delay > 0 {
			to.queue.AddAfter(key, w.Delay)
			continue
		}
		to.levels.want(key, r.urgency(key, at, after))
		to.queue.Add(key)
	}
}

// backOff is how long a key waits that has failed some times in a row, or as long as the server asks for.
func backOff(failures int, err error) time.Duration {
	after := min(firstRetry<<min(failures-1, 20), lastRetry)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		after = min(max(after, time.Duration(seconds)*time.Second), lastRetry)
	}
	return after - time.Duration(rand.Int64N(int64(after)/10+1)) // spread what failed together
}
