package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Status tells how a runner does at one moment, for health checks and metrics.
type Status struct {
	Name    string   // of the controller's queue
	Kinds   []string // of the objects that its keys are named after
	Running bool     // its workers have been started

	// Key is the one that a worker has processed for the longest without progress, and Stuck that time. Progress is a
	// request to the API server that has ended, however it ended: a server that hangs is not a worker that is stuck.
	// Stuck is zero if no worker processes a key.
	Key   plan.Key
	Stuck time.Duration

	// Queued counts the keys that wait for a worker. Idle is for how long, while there were some, none has been taken and
	// no worker has made progress.
	Queued int
	Idle   time.Duration

	Failing   int // keys whose last reconcile has failed, and that are in backoff
	Debounced int // reports that wait for a newer one
	Writing   int // requests that write, under way
}

// Statuses returns how the runner does. It is cheap.
func (r *Runner[S, D, M]) Statuses() []Status {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	debounced, failing := r.keys.counts()
	s := Status{
		Name: r.Name, Kinds: r.Kinds, Running: len(r.workers) > 0,
		Failing: failing, Debounced: debounced, Writing: r.executor.InFlight(),
	}
	if !s.Running {
		return []Status{s}
	}
	queued, active := r.queue.Waiting()
	// To take a key is progress of the worker that takes it.
	for _, w := range r.workers {
		key, last, busy := w.activity()
		if busy && now.Sub(last) > s.Stuck {
			s.Key, s.Stuck = key, now.Sub(last)
		}
		if last.After(active) {
			active = last
		}
	}
	if s.Queued = queued; queued > 0 {
		s.Idle = now.Sub(active)
	}
	return []Status{s}
}

// worker is what is known of one worker at any moment.
type worker struct {
	mu     sync.Mutex
	key    plan.Key
	busy   bool
	active time.Time // when it began or ended to process a key, or a request of its ended
}

func (w *worker) set(key plan.Key, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.busy, w.active = key, busy, time.Now()
}

func (w *worker) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = time.Now()
}

func (w *worker) activity() (key plan.Key, last time.Time, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key, w.active, w.busy
}

type workerKey struct{}

// withWorker makes a worker known to the requests that are made for it.
func withWorker(ctx context.Context, w *worker) context.Context {
	return context.WithValue(ctx, workerKey{}, w)
}

// Progress notes that a request made with ctx has ended. Clients call it, so that a long reconcile of many requests is
// not taken for one that is stuck.
func Progress(ctx context.Context) {
	if w, ok := ctx.Value(workerKey{}).(*worker); ok {
		w.progress()
	}
}

// startWorkers returns as many workers as the controller has, and makes them known until the term ends.
func (r *Runner[S, D, M]) startWorkers() []*worker {
	all := make([]*worker, r.Workers)
	for i := range all {
		all[i] = &worker{active: time.Now()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = all
	return all
}
