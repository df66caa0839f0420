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
	hangs  bool      // the last try of the key hung
	active time.Time // when it began or ended to process a key, or a request of its ended
}

// newWorker returns a worker that begins now.
func newWorker[K comparable]() *worker[K] { return &worker[K]{active: time.Now()} }

// begin notes that the worker processes a key from now on.
func (w *worker[K]) begin(key K, hangs bool) { w.set(key, true, hangs) }

// end notes that the worker is done with the key.
func (w *worker[K]) end() {
	var none K
	w.set(none, false, false)
}

// set notes what the worker does now. That is progress.
func (w *worker[K]) set(key K, busy, hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.busy, w.hangs, w.active = key, busy, hangs, time.Now()
}

// watch calls a function when the worker has made no progress for [hangsAfter], and again after each such time, until
// ctx ends. To stop it then saves the timer.
func (w *worker[K]) watch(ctx context.Context, hangs func()) (stop func() bool) {
	w.mu.Lock() // until the timer is known
	defer w.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(hangsAfter, func() {
		_, last, _ := w.activity()
		idle := time.Since(last)
		if ctx.Err() != nil {
			return
		}
		if idle >= hangsAfter {
			hangs()
			idle = 0
		}
		timer.Reset(hangsAfter - idle)
	})
	return timer.Stop
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

// TurnsOf returns the namespace among whose requests one counts that is made with ctx and writes to a namespace. Those
// for keys that hang count as of one, whatever they write to.
func TurnsOf(ctx context.Context, namespace string) string {
	if w, ok := ctx.Value(contextKey{}).(interface{ forHanging() bool }); ok && w.forHanging() {
		return hanging
	}
	return namespace
}

// forHanging reports whether the last try of the key hung.
func (w *worker[K]) forHanging() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hangs
}

// progress notes a sign of life.
func (w *worker[K]) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = time.Now()
}
