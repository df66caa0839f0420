package reconcile

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/keystate"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// waitForCaches waits until all caches are filled (CLI-59) whose API is not missing.
func (r *TypedRunner[K, S, D, M]) waitForCaches(ctx context.Context) error {
	var filled freshness.Caches
	for _, w := range r.Watches {
		if !cache.WaitForCacheSync(ctx.Done(), func() bool { return w.missing() || w.Informer.HasSynced() }) {
			return nil // ctx has ended
		}
		if w.Informer.HasSynced() {
			filled.Add(w.Kind, w.Informer.GetIndexer())
		}
	}
	if err := filled.Usable(); err != nil {
		return fmt.Errorf("controller %s: %w", r.Name, err)
	}
	return nil
}

// watch registers the event handlers and waits until the objects that exist already have been queued. Handlers come
// only now, so that a standby keeps warm caches and no queue. The returned function takes them off again.
func (r *TypedRunner[K, S, D, M]) watch(ctx context.Context) (stop func(), err error) {
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
		synced = append(synced, func() bool { return w.missing() || registration.HasSynced() })
	}
	cache.WaitForCacheSync(ctx.Done(), synced...)
	return stop, nil
}

// intake is where the event handlers of one term put keys: a late delivery must not reach the next term's.
type intake[K comparable, M any] struct {
	keys     *keystate.States[K, M, Change]
	queue    *queue.Pool[K]
	previous *previousLeader
}

func (r *TypedRunner[K, S, D, M]) handler(w TypedWatch[K]) cache.ResourceEventHandler {
	to := intake[K, M]{r.keys, r.queue, r.previous}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if after, ok := o.(plan.Object); ok && (initial || w.Ignore == nil || !w.Ignore(after)) {
				r.enqueue(to, w, Change{After: after}, initial)
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
				r.enqueue(to, w, Change{Before: before, After: after}, resync)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok { // the watch has not shown the deletion
				o = missed.Obj
			}
			if before, ok := o.(plan.Object); ok {
				r.enqueue(to, w, Change{Before: before}, false)
			}
		},
	}
}

// enqueue queues the keys that a change concerns. Keys of objects from before our time are unverified: another
// process may have written for them moments ago.
func (r *TypedRunner[K, S, D, M]) enqueue(to intake[K, M], w TypedWatch[K], c Change, background bool) {
	unverified := r.verifiable() && c.Before == nil && (background || r.mayBeTheirs(to.previous, w))
	level := queue.Changed
	if background {
		level = queue.Background
	}
	c.Time = r.shared.Clock.Now()
	for _, key := range w.Enqueues(c.Before, c.After) {
		if unverified {
			to.keys.Unverify(key)
		}
		switch {
		case w.RecordLatest:
			to.keys.RecordLatest(key, keystate.Object{Kind: w.Kind, Key: plan.KeyOf(c.object())}, c)
		case w.Record || w.RecordNews && !background:
			to.keys.Record(key, c)
		}
		if w.Delay != nil {
			if delay := w.Delay(key); delay != 0 {
				if delay > 0 {
					to.queue.AddAfter(key, delay)
				}
				continue
			}
		}
		if c.newGeneration(r.KeyName(key)) {
			to.keys.NewGeneration(key)
		}
		to.queue.AddWithPriority(key, to.keys.Priority(key, level, controllerOf(r.KeyName(key), c.After)))
	}
}
