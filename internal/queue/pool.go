package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Pool is a queue of keys, and the workers that process them.
type Pool[K comparable] struct {
	*Queue[K]
	// process does the work on one key. A key is processed by one worker at a time.
	process func(context.Context, K)

	mu      sync.Mutex
	workers []*worker[K] // none while they do not run
}

// NewPool returns a pool without workers. The function processes a key. A panic in it is its own matter.
func NewPool[K comparable](q *Queue[K], process func(context.Context, K)) *Pool[K] {
	return &Pool[K]{Queue: q, process: process}
}

// Run processes keys with so many workers until ctx ends and all of them have returned. It shuts down the queue. A
// few more workers stand by for when one namespace has more than half of them, and others wait ([Queue.Limit]).
func (p *Pool[K]) Run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for _, w := range p.set(p.Limit(workers)) {
		all.Go(func() { p.work(w.into(ctx), w) })
	}
	defer p.set(0)
	<-ctx.Done()
	p.ShutDown()
	all.Wait()
}

// set makes so many workers, which have done nothing yet.
func (p *Pool[K]) set(workers int) []*worker[K] {
	all := make([]*worker[K], workers)
	for i := range all {
		all[i] = newWorker[K]()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workers = all
	return all
}

// work processes one key after the other. When ctx has ended it takes out what is left unprocessed, so that the queue's
// metrics don't go on to show a depth that there is not.
func (p *Pool[K]) work(ctx context.Context, w *worker[K]) {
	for {
		key, shutdown := p.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			p.try(ctx, w, key)
		}
		p.Done(key)
	}
}

// hangsAfter is after what time without progress a key without namespace counts as one that hangs. A request waits for
// less than that until the client may send it.
const hangsAfter = 3 * time.Second

// ErrGivenUp is why a context has ended with which a key without namespace was processed ([context.Cause]).
var ErrGivenUp = errors.New("no request was answered for a while, and other keys wait for a worker")

// try processes a key. One without namespace that hangs, such as a namespace whose webhook does not answer, is given up
// while others wait for a worker, and tried again beside these.
func (p *Pool[K]) try(ctx context.Context, w *worker[K], key K) {
	in := p.storage.inTurnsOf(key)
	w.begin(key, in == hanging)
	defer w.end()
	if in != "" && in != hanging {
		p.process(ctx, key)
		return
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer w.watch(ctx, func() {
		if p.storage.hangs(key) {
			giveUp(ErrGivenUp)
		}
	})()
	p.process(ctx, key)
}

// Activity is what the workers of a pool do at one moment.
type Activity[K comparable] struct {
	Running bool // there are workers; otherwise nothing else is said

	// Key is the one that a worker has processed for the longest without progress, and Stuck that time. Stuck is zero
	// if no worker processes a key.
	Key   K
	Stuck time.Duration

	// Queued counts the keys that wait for a worker. Idle is for how long, while there were some, none has been taken
	// and no worker has made progress. LongestWait is how long the key has waited that has waited longest.
	Queued      int
	Idle        time.Duration
	LongestWait time.Duration
}

// Activity reports what the workers do. It is cheap.
func (p *Pool[K]) Activity() (a Activity[K]) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Running = len(p.workers) > 0; !a.Running {
		return a
	}
	queued, active := p.Waiting()
	// To take a key is progress of the worker that takes it.
	for _, w := range p.workers {
		key, last, busy := w.activity()
		if busy && now.Sub(last) > a.Stuck {
			a.Key, a.Stuck = key, now.Sub(last)
		}
		if last.After(active) {
			active = last
		}
	}
	if a.Queued = queued; queued > 0 {
		a.Idle = now.Sub(active)
	}
	a.LongestWait = p.LongestWait()
	return a
}
