package queue

import (
	"context"
	"sync"
	"time"
)

// worker is what is known of one worker at any moment. The methods are safe for concurrent use.
type worker[K comparable] struct {
	mu     sync.Mutex
	key    K
	busy   bool
	active time.Time // when it began or ended to process a key, or a request of its ended
}

// newWorker returns a worker that begins now.
func newWorker[K comparable]() *worker[K] { return &worker[K]{active: time.Now()} }

// begin notes that the worker processes a key from now on.
func (w *worker[K]) begin(key K) { w.set(key, true) }

// end notes that the worker is done with the key.
func (w *worker[K]) end() {
	var none K
	w.set(none, false)
}

// set notes what the worker does now. That is progress.
func (w *worker[K]) set(key K, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.busy, w.active = key, busy, time.Now()
}

// activity returns the key that the worker processes, if it is busy, and when it has last made progress.
func (w *worker[K]) activity() (key K, last time.Time, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key, w.active, w.busy
}

// contextKey is the key of the worker in the context of its work.
type contextKey struct{}

// into returns a context by which the worker is known to the requests that are made for it.
func (w *worker[K]) into(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, w)
}

// Progress notes that a request made with ctx has ended. Clients call it, so that a long reconcile of many requests is
// not taken for one that is stuck.
func Progress(ctx context.Context) {
	if w, ok := ctx.Value(contextKey{}).(interface{ progress() }); ok {
		w.progress()
	}
}

// progress notes a sign of life.
func (w *worker[K]) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = time.Now()
}
