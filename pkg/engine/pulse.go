package engine

import (
	"context"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Pulse tells how a runner does at one moment, for health checks and metrics.
type Pulse struct {
	Name    string   // of the controller's queue
	Kinds   []string // of the objects that its keys are named after
	Running bool     // its workers are at work

	// Key is the one that a worker has been at for the longest without progress, and Stuck that time. Progress is a
	// request to the API server that has ended, however it ended: a server that hangs is not a worker that is stuck.
	// Stuck is zero if no worker is at a key.
	Key   plan.Key
	Stuck time.Duration

	// Queued counts the keys that wait for a worker. Idle is for how long, while there were some, none has been taken and
	// no worker has made progress.
	Queued int
	Idle   time.Duration

	Failing int // keys whose last look has failed, and which are looked at again after a back-off
	Held    int // reports that are debounced
	Writing int // requests that write, under way
}

// Pulse tells how the runner does. It is cheap.
func (r *Runner[S]) Pulse() Pulse {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Pulse{
		Name: r.Name, Kinds: r.Kinds, Running: len(r.workers) > 0,
		Failing: r.failing, Held: r.waiting, Writing: len(r.executor.slots),
	}
	if !p.Running {
		return p
	}
	queued, moved := r.levels.waiting()
	// To take a key is a move of the worker that takes it.
	for _, w := range r.workers {
		key, last, busy := w.at()
		if busy && now.Sub(last) > p.Stuck {
			p.Key, p.Stuck = key, now.Sub(last)
		}
		if last.After(moved) {
			moved = last
		}
	}
	if p.Queued = queued; queued > 0 {
		p.Idle = now.Sub(moved)
	}
	return p
}

// worker is what is known of one worker at any moment.
type worker struct {
	mu    sync.Mutex
	key   plan.Key
	busy  bool
	moved time.Time // when it began or ended to work at a key, or a request of its ended
}

func (w *worker) set(key plan.Key, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.busy, w.moved = key, busy, time.Now()
}

func (w *worker) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = time.Now()
}

func (w *worker) at() (key plan.Key, moved time.Time, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key, w.moved, w.busy
}

type workerKey struct{}

// withWorker makes a worker known to the requests that are made for it.
func withWorker(ctx context.Context, w *worker) context.Context {
	return context.WithValue(ctx, workerKey{}, w)
}

// progressed notes that a request has ended.
func progressed(ctx context.Context) {
	if w, ok := ctx.Value(workerKey{}).(*worker); ok {
		w.progress()
	}
}

// hire returns as many workers as the controller has, and makes them known; dismiss forgets them, and with them what can
// only be said of a controller that runs.
func (r *Runner[S]) hire() []*worker {
	all := make([]*worker, r.Workers)
	for i := range all {
		all[i] = &worker{moved: time.Now()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = all
	return all
}

func (r *Runner[S]) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers, r.keys, r.works, r.waiting, r.failing = nil, map[plan.Key]*state{}, works{}, 0, 0
}
