package reconcile

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// TermOptions say what a term is. T is data: whatever was a value once is not changed any more.
type TermOptions[T any] struct {
	// Begin makes the first value. The caches are filled then, and the watches show each later change. Changes wait
	// until it returns, so it must be quick. Nil: it is the zero value.
	Begin func() T
	// Next returns the value after a change of an object: before is nil for a new one, after for one that is gone. It
	// may get a change that Begin has seen in the caches already; the value then has to stay as it is.
	Next func(t T, before, after plan.Object) T
	// Expire returns the value as time goes by, and how long it stays so; zero for as long as nothing changes it. It is
	// called after each change, and when that time is over. It may be nil.
	Expire func(now time.Time, t T) (T, time.Duration)

	// Concerns reports whether keys are to be reconciled because the value has changed. It is pure. Nil: they never
	// are.
	Concerns func(was, is T) bool
	// Keys are those to be reconciled, at first and whenever a change concerns keys. It may be nil if no change does.
	Keys func(T) iter.Seq[plan.Key]
	// Portion is how many keys are enqueued at once, before a Pause. Zero: all of them.
	Portion int
	Pause   time.Duration
}

// Term is the one home of what a controller knows beside its keys for as long as the process leads: how many nodes
// there are, how zones do, which volumes are reserved. Watches change it ([Term.Follow]), outcomes do ([Term.Update]),
// and time does (Expire). Observe only reads it. With the term as leader all of it ends, timers included:
//
//	zones := reconcile.NewTerm(reconcile.TermOptions[zones]{
//		Begin: k.allZones, Next: zones.next, Concerns: ..., Keys: ...})
//	reconcile.Controller[...]{
//		Watches: []reconcile.Watch{zones.Follow(nodes.Watch(informers.Itself))},
//		Term:    zones,
//		...
//	}
//
// Its methods may be called concurrently. The functions of its options are called one after the other, except for Keys,
// and must not call them.
type Term[T any] struct {
	options TermOptions[T]
	changed chan struct{} // has room for one: a change concerns keys, or Expire

	mu      sync.Mutex
	known   bool
	value   T
	version int // grows with each change that concerns keys
}

// NewTerm returns a term that has not begun.
func NewTerm[T any](o TermOptions[T]) *Term[T] {
	return &Term[T]{options: o, changed: make(chan struct{}, 1)}
}

// Get returns the value. It is not known, and zero, while the controller does not work.
func (t *Term[T]) Get() (value T, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.known
}

// Update replaces the value by what the function makes of it. It is for outcomes: Planned and Applied call it. The
// function is not called while the controller does not work.
func (t *Term[T]) Update(f func(T) T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known { // Begin will see it otherwise
		t.set(f(t.value))
	}
}

// Follow returns the watch with the value following each change that it shows, before the change enqueues keys.
func (t *Term[T]) Follow(w Watch) Watch {
	enqueues := w.Enqueues
	w.Enqueues = func(before, after plan.Object) []plan.Key {
		t.Update(func(value T) T { return t.options.Next(value, before, after) })
		return enqueues(before, after)
	}
	return w
}

// Run is called by the runner: the term lasts as long as work does. When that ends, the value is unknown again, because
// the process may not see objects come and go until it leads again.
func (t *Term[T]) Run(ctx context.Context, enqueue func(plan.Key), work func()) {
	t.begin()
	defer t.end()
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { t.follow(ctx, enqueue) })
	work()
}

func (t *Term[T]) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known = true; t.options.Begin != nil {
		t.value = t.options.Begin()
	}
}

func (t *Term[T]) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var none T
	t.value, t.known = none, false
}

// set is called under the lock.
func (t *Term[T]) set(value T) {
	was := t.value
	t.value = value
	concerns := t.options.Concerns != nil && t.options.Concerns(was, value)
	if concerns {
		t.version++
	}
	if concerns || t.options.Expire != nil {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
}

// follow has the value expire and enqueues the keys that it concerns, until ctx ends.
func (t *Term[T]) follow(ctx context.Context, enqueue func(plan.Key)) {
	for enqueued := -1; ; {
		var over <-chan time.Time
		if lasts := t.expire(); lasts > 0 {
			over = time.After(lasts)
		}
		if value, version := t.at(); version != enqueued {
			enqueued = version
			t.enqueue(ctx, enqueue, value, version)
		}
		select {
		case <-t.changed:
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Term[T]) expire() (lasts time.Duration) {
	if t.options.Expire == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.value
	t.value, lasts = t.options.Expire(time.Now(), was)
	if t.options.Concerns != nil && t.options.Concerns(was, t.value) {
		t.version++
	}
	return lasts
}

// enqueue enqueues the keys that a value concerns, unless that changes meanwhile or ctx ends.
func (t *Term[T]) enqueue(ctx context.Context, enqueue func(plan.Key), value T, version int) {
	if t.options.Keys == nil {
		return
	}
	enqueued := 0
	for key := range t.options.Keys(value) {
		enqueue(key)
		if enqueued++; t.options.Portion == 0 || enqueued%t.options.Portion > 0 {
			continue
		}
		select {
		case <-time.After(t.options.Pause):
		case <-ctx.Done():
			return
		}
		if _, now := t.at(); now != version {
			return
		}
	}
}

func (t *Term[T]) at() (T, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.version
}
