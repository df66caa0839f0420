package worker

import (
	"context"
	"sync"
	"time"
)

// Worker is what is known of one worker at any moment. The methods are safe for concurrent use.
type Worker[K comparable] struct {
	mu     sync.Mutex
	key    K
	busy   bool
	active time.Time // when it began or ended to process a key, or a request of its ended
}

// New returns a worker that begins now.
func New[K comparable]() *Worker[K] { return &Worker[K]{active: time.Now()} }

// Begin notes that the worker processes a key from now on.
func (w *Worker[K]) Begin(key K) { w.set(key, true) }

// End notes that the worker is done with the key.
func (w *Worker[K]) End() {
	var none K
	w.set(none, false)
}

func (w *Worker[K]) set(key K, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.busy, w.active = key, busy, time.Now()
}

// Activity returns the key that the worker processes, if it is busy, and when it has last made progress.
func (w *Worker[K]) Activity() (key K, last time.Time, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key, w.active, w.busy
}

type contextKey struct{}

// Into returns a context by which the worker is known to the requests that are made for it.
func (w *Worker[K]) Into(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, w)
}

// Progress notes that a request made with ctx has ended. Clients call it, so that a long reconcile of many requests is
// not taken for one that is stuck.
func Progress(ctx context.Context) {
	if w, ok := ctx.Value(contextKey{}).(interface{ progress() }); ok {
		w.progress()
	}
}

func (w *Worker[K]) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = time.Now()
}
