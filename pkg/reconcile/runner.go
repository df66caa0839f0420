package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/keystate"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Runner runs a controller whose keys are the names of objects.
type Runner[S, D, M any] = TypedRunner[plan.Key, S, D, M]

// TypedRunner runs one controller.
type TypedRunner[K comparable, S, D, M any] struct {
	TypedController[K, S, D, M]
	shared    Shared
	access    Access
	reader    client.Reader // for Observe; it cannot write
	caches    freshness.Caches
	executor  *executor.Executor
	explained *explain.Records

	// Of this term as leader. A process that leads again knows no more than one that leads for the first time.
	keys     *keystate.States[K, M, Change]
	queue    *queue.Pool[K]
	previous *previousLeader
	reads    *liveReads
	holds    *holds

	mu sync.Mutex // guards what begins and ends with a term
}

// New returns a runner for the controller. It starts nothing.
func New[S, D, M any](shared Shared, access Access, c Controller[S, D, M]) *Runner[S, D, M] {
	c.KeyName = func(key plan.Key) plan.Key { return key }
	r := NewTyped(shared, access, c)
	if c.RecordStore == nil {
		r.explained = explain.NewRecords(r.detail)
	}
	return r
}

// NewTyped does the same for a controller whose keys are of any type. What people ask about is answered from its
// records alone, because a name does not say which key it is of.
func NewTyped[K comparable, S, D, M any](
	shared Shared, access Access, c TypedController[K, S, D, M],
) *TypedRunner[K, S, D, M] {
	if c.QueueName == "" {
		c.QueueName = c.Name
	}
	if c.Verified == nil {
		c.Verified = c.Explained
	}
	if c.Remember == nil {
		c.Remember = IfCarriedOut
	}
	r := &TypedRunner[K, S, D, M]{
		TypedController: c,
		shared:          shared,
		access:          access,
		reader:          client.ReadOnly(access.Client),
		keys:            keystate.New[K, M, Change](),
		reads:           &liveReads{},
	}
	if r.explained = c.RecordStore; r.explained == nil {
		r.explained = explain.NewRecords(nil)
	}
	r.executor = executor.New(executor.Config{
		Client: access.Client, Mapper: shared.Mapper, Events: access.Events, Method: access.Method,
		MayGet:  access.MayGet,
		Tracker: shared.Tracker, Written: access.Hooks.Write, Stale: r.stale,
		Periodic: c.Period > 0,
	})
	for _, w := range c.Watches {
		r.caches.Add(w.Kind, w.Informer.GetIndexer())
	}
	return r
}

// Run works until ctx ends and all workers have returned. It leaves no goroutine behind.
func (r *TypedRunner[K, S, D, M]) Run(ctx context.Context) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), r.Name)
	ctx = klog.NewContext(ctx, logger)
	r.begin() // first, so that the queue's metrics are there from now on (MH-23)
	defer r.caches.Tracked(r.shared.Tracker)()
	defer r.queue.ShutDown()
	if err := r.waitForCaches(ctx); err != nil {
		return err
	}
	defer r.askPreviousLeader(ctx)()
	stop, err := r.watch(ctx)
	defer stop()
	if err != nil {
		return err
	}
	logger.V(1).Info("Controller runs", "workers", r.Workers)
	defer r.end()
	if r.Term != nil {
		r.Term.Run(ctx, r.queue.Add, func() { r.work(ctx) })
	} else {
		r.work(ctx)
	}
	return nil
}

// work has the workers reconcile keys until ctx ends.
func (r *TypedRunner[K, S, D, M]) work(ctx context.Context) {
	var source sync.WaitGroup
	if r.Source != nil {
		source.Go(func() { r.Source(ctx, r.queue.Add) })
	}
	r.queue.Run(ctx, r.Workers)
	source.Wait()
}

// begin makes the state of a new term.
func (r *TypedRunner[K, S, D, M]) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.previous, r.reads = keystate.New[K, M, Change](), &previousLeader{}, &liveReads{}
	r.holds = newHolds(r.Brake)
	r.queue = queue.NewPool(queue.New(r.QueueName, r.namespaceOf), r.reconcile)
	r.explained.Clear()
}

// end drops the state of a term and stops its timers, and with it goes what can only be said of a controller that runs.
func (r *TypedRunner[K, S, D, M]) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys.End()
	r.holds.end()
	r.keys = keystate.New[K, M, Change]()
}

// Enqueue has a key reconciled after some time, for a reason that no watch and no Source has. Keys of one owner,
// which may be empty, take turns with others of their namespace. From when Source is called until Run returns it may be
// called at any time; otherwise nothing happens.
func (r *TypedRunner[K, S, D, M]) Enqueue(key K, owner types.UID, after time.Duration) {
	r.mu.Lock()
	keys, to := r.keys, r.queue
	r.mu.Unlock()
	switch {
	case to == nil:
	case after > 0:
		to.AddAfter(key, after)
	default:
		to.AddWithPriority(key, keys.Priority(key, queue.Changed, owner))
	}
}

// cached reports whether the controller has caches, which may lag. Without them, a key has nothing to wait for, and
// nothing is remembered of one that is done.
func (r *TypedRunner[K, S, D, M]) cached() bool { return len(r.Watches) > 0 || !r.SkipVerification }

func (r *TypedRunner[K, S, D, M]) namespaceOf(key K) string { return r.KeyName(key).Namespace }

// stale notes that a reconcile was put off, or a write not sent, because the cache of the resource lacks own writes.
func (r *TypedRunner[K, S, D, M]) stale(resource schema.GroupResource) {
	if r.access.Hooks.Stale != nil {
		r.access.Hooks.Stale(resource)
	}
}

// enqueueAfter has the key reconciled after d, with the priority that it has now.
func (r *TypedRunner[K, S, D, M]) enqueueAfter(key K, d time.Duration) {
	if p := r.keys.Priority(key, queue.Changed, ""); p.Level == queue.InProgress {
		r.queue.Prioritize(key, p)
	}
	r.queue.AddAfter(key, d)
}

// debounce returns how much longer a report waits for a newer one; zero if it is to be written now.
func (r *TypedRunner[K, S, D, M]) debounce(
	s *keystate.State[M, Change], rep plan.Plan, now time.Time, cost time.Duration,
) time.Duration {
	return r.keys.Debounce(s, rep, now, cost, r.executor.LastWrite(), r.queue.Snapshot)
}
