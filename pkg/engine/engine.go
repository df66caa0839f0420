// Package engine runs controllers that are written as observe, plan, report (see package plan). It owns everything that
// they have in common: the queue, retries, freshness of the caches, the writing, events, and what is kept to explain it.
package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Controller is a controller in its four parts. S is its snapshot: all that one look at a key has found.
type Controller[S any] struct {
	Name    string   // of the queue, in metrics and logs
	Workers int      // keys that are worked on at the same time
	Kinds   []string // of the objects that keys are named after, for people who ask about one; may be empty
	Watches []Watch

	// Observe reads the caches (and, where the contract asks for it, live). ok is false when the key's object is gone.
	Observe func(ctx context.Context, key plan.Key) (s S, ok bool, err error)
	// Owner is the object that events are recorded on and that owns what the plan writes; nil if there is none.
	Owner func(S) plan.Object
	// Free controllers write objects that their Owner does not control; it is only what events are about.
	Free bool
	// Seeds are keys to look at once all caches are filled, whether or not an object wakes them.
	Seeds []plan.Key
	// Cycle controllers work by the clock: a failed look is not repeated with back-off, but after this time (PGC-3).
	Cycle time.Duration
	// Plan decides what to write. It is pure.
	Plan func(now time.Time, s S) plan.Plan
	// Report decides which status to write, knowing what became of the plan. It is pure, and may be nil. It is not
	// asked when the plan turned out to rest on an outdated cache.
	Report func(now time.Time, s S, did plan.Outcome) plan.Plan
	// Measure is told what became of a plan, for metrics of the controller's own. It may be nil, and must be quick.
	Measure func(s S, did plan.Outcome)
	// Live names what must be read live before the first write to a key whose caches may lack the writes of a former
	// leader, or one of our own that was not answered. It may be nil.
	Live func(S) []Live
}

// Watch says which keys a change of a cached object wakes.
type Watch struct {
	Kind     schema.GroupVersionKind
	Informer cache.SharedIndexInformer
	// Wakes maps a change to keys: before is nil for a new object, after for a deleted one. It must be quick.
	Wakes func(before, after plan.Object) []plan.Key
	Delay time.Duration // between the change and the look at the keys
	// Resync: re-deliveries of unchanged objects wake, too (CI-14).
	Resync bool
	// Ignore names new objects that don't wake, unless they were there before the controller began (EP-7). It may be nil.
	Ignore func(added plan.Object) bool
}

// Live is a set of objects to compare with the cache.
type Live struct {
	Example   plan.Object // any object of the kind
	Namespace string
	Selector  labels.Selector
	Cached    []plan.Object // what the cache shows of the set
}

// Shared is what all controllers of a process have in common.
type Shared struct {
	Freshness *Freshness
	Lease     Lease
	Explain   *Explain
	Versions  Versions // nil: every new object is read live before the first write for it
}

// Access is what one controller has for itself: how it reaches the API server, under its own identity and limits (CI-5,
// CI-20), and who is told what it does.
type Access struct {
	API    API
	Events record.EventRecorder
	Hooks  Hooks
}

// New returns a runner for the controller. It starts nothing.
func New[S any](shared Shared, access Access, c Controller[S]) *Runner[S] {
	for _, w := range c.Watches {
		shared.Freshness.Use(w.Kind, w.Informer.GetIndexer())
	}
	return &Runner[S]{
		Controller: c,
		shared:     shared,
		keys:       map[plan.Key]*state{},
		works:      works{},
		executor: &executor{
			api: access.API, events: access.Events, fresh: shared.Freshness, lease: shared.Lease,
			hooks: access.Hooks, early: rate.NewLimiter(earlyRate, earlyBurst), slots: make(chan struct{}, parallelWrites), free: c.Free, byClock: c.Cycle > 0,
		},
	}
}

// Runner runs one controller.
type Runner[S any] struct {
	Controller[S]
	executor *executor
	shared   Shared
	levels   *levels
	queue    workqueue.TypedDelayingInterface[plan.Key]

	mu      sync.Mutex
	keys    map[plan.Key]*state
	works   works
	former  *former   // of this term
	waiting int       // how many reports are debounced
	failing int       // how many keys have failed
	workers []*worker // none while they don't work
}

// state is what the runner remembers of a key between two looks. Only the worker that has the key touches it, but for
// the fields behind the runner's lock.
type state struct {
	awaited awaited
	waits   int           // looks in vain for what is awaited
	report  debounced     // the report that waits, if one does; written behind the lock
	moving  bool          // more is about to change by itself, says the last report
	failing int           // failures in a row; written behind the lock
	family  types.UID     // see works
	thought time.Duration // what this look has cost so far, writes aside

	unsettled bool      // behind the lock: the caches may lack writes of which we know nothing
	work      *work     // behind the lock: what has begun and not come to rest; nil if nothing has
	rests     time.Time // behind the lock: the key is not looked at before, see rest
}

// Run works until ctx ends and all workers have returned. It leaves no goroutine behind.
func (r *Runner[S]) Run(ctx context.Context) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), r.Name)
	ctx = klog.NewContext(ctx, logger)
	r.openQueue() // first, so that its metrics are there from now on (MH-23)
	defer r.queue.ShutDown()
	if err := r.sync(ctx); err != nil {
		return err
	}
	defer r.askFormer(ctx)()
	stop, err := r.watch(ctx)
	defer stop()
	if err != nil {
		return err
	}
	for _, key := range r.Seeds {
		r.queue.Add(key)
	}
	logger.V(1).Info("Controller runs", "workers", r.Workers)
	var workers sync.WaitGroup
	for _, w := range r.hire() {
		workers.Go(func() { r.work(withWorker(ctx, w), w) })
	}
	defer r.dismiss()
	<-ctx.Done()
	r.queue.ShutDown()
	workers.Wait()
	return nil
}

// work looks at one key after the other. When ctx has ended it takes out what is left unlooked at, so that the queue's
// metrics don't go on to show a depth that there is not.
func (r *Runner[S]) work(ctx context.Context, w *worker) {
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			w.set(key, true)
			r.look(ctx, key)
			w.set(key, false)
		}
		r.queue.Done(key)
	}
}

// look is one pass over a key: observe, plan, apply, report. A panic ends at the key: planners share nothing, so the
// others are safe.
func (r *Runner[S]) look(ctx context.Context, key plan.Key) {
	logger := klog.FromContext(ctx).WithValues("key", key.String())
	began := time.Now()
	st := r.state(key)
	if rest := r.resting(st, began); rest > 0 {
		r.later(key, rest)
		return
	}
	rec := Record{Time: began}
	var err error
	defer func() {
		cause := recover()
		if cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			logger.Error(err, "A controller panicked over a key", "stack", string(debug.Stack()))
		}
		r.finish(logger, key, st, &rec, err)
		r.executor.hooks.pass(&rec, err, cause != nil, time.Since(began))
	}()

	if missing, ok := st.awaited.settle(r.shared.Freshness); !ok {
		r.await(key, st, &rec, missing)
		return
	}
	st.waits = 0
	if st.awaited.gaveUp {
		st.awaited.gaveUp = false
		r.setUnsettled(st, true)
	}
	unsettled := r.isUnsettled(st)
	s, ok, err2 := r.Observe(klog.NewContext(ctx, logger), key)
	if err = err2; err != nil || !ok {
		if err == nil {
			r.forget(key, unsettled)
		}
		return
	}
	err = r.act(klog.NewContext(ctx, logger), key, st, s, &rec)
}

// act plans, writes and reports on one snapshot.
func (r *Runner[S]) act(ctx context.Context, key plan.Key, st *state, s S, rec *Record) error {
	now := rec.Time
	st.family = familyOf(key, r.owner(s))
	p := r.Plan(now, s)
	st.thought = time.Since(now)
	rec.Why, rec.Next = p.Why, p.Requeue
	if r.isUnsettled(st) && r.wouldWrite(now, s, p) {
		fresh, ok, err := r.observeSettled(ctx, key, st, s)
		if err != nil || !ok {
			return err
		}
		s, p = fresh, r.Plan(now, fresh)
		rec.Why, rec.Next = p.Why, p.Requeue
	}
	pass := r.executor.pass(ctx, r.owner(s), &st.awaited)
	did := pass.apply(p.Steps)
	rec.Wrote = len(did.Results)
	r.learn(st, did)
	if r.Measure != nil {
		r.Measure(s, did)
	}
	if r.Report == nil || silent(did.Err) || did.Err != nil && !answered(did.Err) {
		return did.Err
	}
	resumed := time.Now()
	rep := r.Report(now, s, did)
	st.thought += time.Since(resumed)
	rec.Next = sooner(rec.Next, rep.Requeue)
	st.moving = rep.Moving
	if rep.Why != "" {
		rec.Why = rep.Why
	}
	if wait := r.debounce(st, rep, now); wait > 0 {
		rec.Next = sooner(rec.Next, wait)
		return did.Err
	}
	pass.debounced = rep.Debounce > 0
	reported := pass.apply(rep.Steps)
	rec.Wrote += len(reported.Results)
	r.learn(st, reported)
	if did.Err != nil { // it decides when to look again; the report then follows
		return did.Err
	}
	return reported.Err
}

// wouldWrite reports whether the plan, or the report if nothing is planned, asks for a write.
func (r *Runner[S]) wouldWrite(now time.Time, s S, p plan.Plan) bool {
	return !p.Empty() || r.Report != nil && !r.Report(now, s, plan.Outcome{}).Empty()
}

// observeSettled observes anew when the caches show what the server has: what was observed before may be older than that.
// Not ok without error: the caches lack something, or the key's object is gone.
func (r *Runner[S]) observeSettled(ctx context.Context, key plan.Key, st *state, s S) (fresh S, ok bool, err error) {
	waiting, err := r.settle(ctx, st, r.owner(s), s)
	if err != nil || waiting {
		return s, false, err
	}
	fresh, ok, err = r.Observe(ctx, key)
	if err == nil && !ok {
		r.forget(key, false)
	}
	return fresh, ok, err
}

// finish decides when the key is looked at again, and keeps the record.
func (r *Runner[S]) finish(logger klog.Logger, key plan.Key, st *state, rec *Record, err error) {
	switch {
	case err == nil:
		if rec.Waiting == "" { // to wait is no success
			r.setFailing(st, 0)
			st.awaited.refused = 0
			if rec.Wrote == 0 {
				r.rested(st)
			}
		}
		if rec.Next > 0 {
			r.later(key, rec.Next)
		}
	case silent(err):
		// What it waits for brings an event, or the process is about to end. The timer is a safety net.
		rec.Next = time.Second
		r.later(key, rec.Next)
		logger.V(4).Info("Looks again when the cache has caught up", "reason", err.Error())
	default:
		r.setFailing(st, st.failing+1)
		r.executor.hooks.retry()
		rec.Error, rec.Retries = err.Error(), st.failing
		wait := r.Cycle
		if wait <= 0 {
			wait = backOff(st.failing, err)
		}
		rec.Next = sooner(rec.Next, wait)
		r.later(key, rec.Next)
		if st.failing&(st.failing-1) == 0 { // 1, 2, 4, 8, ...: a failure that lasts does not flood the log
			logger.Info("Failed, will retry", "failures", st.failing, "after", rec.Next.String(), "err", err.Error())
		}
	}
	r.rest(st)
	r.drop(key, st)
	r.shared.Explain.Put(r.Name, key, *rec)
	logger.V(5).Info("Looked", "why", rec.Why, "wrote", rec.Wrote, "next", rec.Next.String())
}

// settle reads live what the caches may lack, and reports whether they do. Until the caches show it, nothing is written.
func (r *Runner[S]) settle(ctx context.Context, st *state, owner plan.Object, s S) (waiting bool, err error) {
	if owner != nil && !r.Free {
		k, err := KindOf(owner)
		if err != nil {
			return false, err
		}
		found, err := r.executor.get(ctx, k, keyOf(owner))
		if err != nil {
			return false, fmt.Errorf("read live: %w", err)
		}
		st.awaited.version(k.GroupVersionKind, found.GetResourceVersion())
	}
	if r.Live != nil {
		for _, l := range r.Live(s) {
			if err := r.compare(ctx, st, l); err != nil {
				return false, fmt.Errorf("read live: %w", err)
			}
		}
	}
	r.setUnsettled(st, false)
	if _, ok := st.awaited.settle(r.shared.Freshness); !ok {
		return true, plan.ErrStale
	}
	return false, nil
}

// compare makes the key wait until the cache shows what the server shows: the latest version of what exists, and the
// departure of what does not.
func (r *Runner[S]) compare(ctx context.Context, st *state, l Live) error {
	k, err := KindOf(l.Example)
	if err != nil {
		return err
	}
	found, err := r.executor.api.List(ctx, k, l.Namespace, l.Selector.String())
	if err != nil {
		return err
	}
	exists := make(map[any]bool, len(found))
	for i := range found {
		exists[found[i].UID] = true
		st.awaited.version(k.GroupVersionKind, found[i].ResourceVersion)
	}
	for _, o := range l.Cached {
		if !exists[o.GetUID()] && l.Selector.Matches(labels.Set(o.GetLabels())) {
			st.awaited.absence(k.GroupVersionKind, o, l.Selector)
		}
	}
	return nil
}

// learn marks the key as unsettled if a write was not answered.
func (r *Runner[S]) learn(st *state, did plan.Outcome) {
	for _, result := range did.Results {
		if !settled(result.Err) {
			r.setUnsettled(st, true)
			return
		}
	}
}

// compareAgain is after how many looks in vain, of a second and less, the caches are compared with the server anew.
const compareAgain = 15

// await puts off a key whose caches lack its own writes. Their arrival wakes it; the timer is a safety net.
func (r *Runner[S]) await(key plan.Key, st *state, rec *Record, missing schema.GroupVersionKind) {
	st.waits++
	if st.waits%compareAgain == 0 && st.awaited.doubtful() {
		r.setUnsettled(st, true)
	}
	rec.Waiting = missing.Kind
	rec.Why = "waiting for the cache of " + missing.Kind + " to show our own writes"
	rec.Next = min(10*time.Millisecond<<min(st.waits, 7), time.Second)
	if old, ok := r.shared.Explain.Get(r.Name, key); ok && old.Why != "" {
		rec.Why = old.Why + "; " + rec.Why
		if old.Waiting != "" {
			rec.Why = old.Why
		}
	}
	resource, _ := meta.UnsafeGuessKindToResource(missing)
	r.executor.hooks.stale(resource.GroupResource())
}

func (r *Runner[S]) owner(s S) plan.Object {
	if r.Owner == nil {
		return nil
	}
	return r.Owner(s)
}

// sooner returns the smaller of two waits, where zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
