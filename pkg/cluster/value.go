package cluster

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options say what a value is. C is data: whatever was returned as a value is not changed any more.
type Options[C any] struct {
	// First makes the value from the caches, when they are filled and the controller begins to work. Changes wait until it returns, so it
	// must be quick.
	First func() C
	// Next returns the value after a change of an object: before is nil for a new one, after for one that is gone. It is pure. It may be
	// told of a change that First has seen in the caches already; the value then has to stay as it is.
	Next func(c C, before, after plan.Object) C
	// Concerns reports whether keys are to be reconciled because the value has changed. It is pure.
	Concerns func(was, is C) bool
	// Keys are those to be reconciled, at first and whenever a change concerns keys.
	Keys func(C) iter.Seq[plan.Key]
	// Portion is how many keys are enqueued at once, before a Pause. Zero: all of them.
	Portion int
	Pause   time.Duration
}

// Value is a value of a controller that works: see [Options]. Its methods may be called concurrently.
type Value[C any] struct {
	Options[C]
	changed chan struct{} // has room for one: a change concerns keys

	mu      sync.Mutex
	known   bool
	value   C
	version int // grows with each change that concerns keys
}

// New returns a value that is not known yet.
func New[C any](o Options[C]) *Value[C] {
	return &Value[C]{Options: o, changed: make(chan struct{}, 1)}
}

// Get returns the value. It is not known, and zero, while the controller does not work, and until all objects that exist have been counted.
func (v *Value[C]) Get() (c C, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.known
}

// Follow returns the watch with the value following each change that it shows, before the change enqueues keys.
func (v *Value[C]) Follow(w reconcile.Watch) reconcile.Watch {
	enqueues := w.Enqueues
	w.Enqueues = func(before, after plan.Object) []plan.Key {
		v.next(before, after)
		return enqueues(before, after)
	}
	return w
}

func (v *Value[C]) next(before, after plan.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known {
		return // First will see it
	}
	was := v.value
	if v.value = v.Next(was, before, after); !v.Concerns(was, v.value) {
		return
	}
	v.version++
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// Source is that of the controller ([reconcile.Controller]). When ctx ends, the value is unknown again: the process may not see objects come
// and go until it leads again.
func (v *Value[C]) Source(ctx context.Context, enqueue func(plan.Key)) {
	v.begin()
	defer v.forget()
	for {
		v.enqueue(ctx, enqueue)
		select {
		case <-v.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (v *Value[C]) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value, v.known = v.First(), true
}

func (v *Value[C]) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var none C
	v.value, v.known = none, false
}

// enqueue enqueues the keys that the value concerns, unless that changes meanwhile or ctx ends.
func (v *Value[C]) enqueue(ctx context.Context, enqueue func(plan.Key)) {
	value, version := v.at()
	enqueued := 0
	for key := range v.Keys(value) {
		enqueue(key)
		if enqueued++; v.Portion == 0 || enqueued%v.Portion > 0 {
			continue
		}
		select {
		case <-time.After(v.Pause):
		case <-ctx.Done():
			return
		}
		if _, now := v.at(); now != version {
			return
		}
	}
}

func (v *Value[C]) at() (C, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.version
}
