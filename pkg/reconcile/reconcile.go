package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/keystate"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// ErrNoReport stands in the outcome of a report that was not made, because something else than an answer of the
// server has stopped the plan.
var ErrNoReport = errors.New("no report was made")

// run is one reconcile of one key.
type run[K comparable, S, D, M any] struct {
	runner *TypedRunner[K, S, D, M]
	key    K
	name   plan.Key // of the key, for people
	state  *keystate.State[M, Change]
	record explain.Record
	next   time.Duration // until the next reconcile by the clock; zero: only an event leads to one
	cost   time.Duration // of the reconcile so far, live reads included, writes aside
	left   time.Duration // see [executor.Writing.LeftOut]
	gone   bool          // the object of the key is gone
	owner  plan.Object   // see [TypedController.Owner]
	ended  bool          // the key has come to a plan, which was carried out or kept
	report time.Duration // until a report is written that waits for a newer one; zero if none does
	due    time.Duration // until there is more to report; zero: only an event leads to that

	writing       *executor.Writing // nil if the key has come to no plan
	steps         []plan.Step       // of the plan and of its report
	did, reported plan.Outcome      // of the same
}

// eventAfter is how long a key must have failed for an event about a write that is refused, if the step has
// none that does.
const eventAfter = 15 * time.Second

// undone says why a plan is made again that was carried out, see [executor.Writing.LeftOut].
const undone = "looks again, as an admission webhook or another writer may have undone a change"

// vanishedAfter is how long after a creation or an adoption the key is reconciled again, unless a change of
// something has led to that before. An object that is deleted while a watch is interrupted is in no list, and no
// event is about it; nor does one that was an orphan in the caches when it was deleted.
//
// A creation that finds its object to exist is followed by another reconcile, too: it may be one of ours that was
// not answered, and be deleted before the caches show it. While the caches still lack the object, the time until
// the next one doubles, up to [queue.MaxBackoff].
const vanishedAfter = 2 * time.Second

// reconcile is one reconcile of a key: observe, plan, apply, report. A panic ends at the key: planners share
// nothing, so the others are safe.
func (r *TypedRunner[K, S, D, M]) reconcile(ctx context.Context, key K) {
	began := r.shared.Clock.Now()
	state, admitted := r.keys.Admit(key, r.caches, began)
	if admitted.Wait > 0 && !admitted.Stale {
		r.enqueueAfter(key, admitted.Wait)
		return
	}
	name := r.KeyName(key)
	logger := klog.FromContext(ctx).WithValues("key", name.String())
	one := &run[K, S, D, M]{runner: r, key: key, name: name, state: state,
		record: explain.Record{Time: began, Inferred: r.shared.ReadOnly}}
	var err error
	defer func() {
		cause := recover()
		if cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			logger.Error(err, "A controller panicked over a key", "stack", string(debug.Stack()))
		}
		one.finish(logger, err)
		r.access.Hooks.reconciled(&one.record, err, cause != nil, time.Since(began))
	}()
	if admitted.Stale {
		one.waitForCache(admitted)
		return
	}
	err = one.do(klog.NewContext(ctx, logger))
	if err != nil && errors.Is(context.Cause(ctx), queue.ErrGivenUp) {
		err = queue.ErrGivenUp // what has ended with the context says no more
	}
}

// do observes, plans, writes and reports.
func (r *run[K, S, D, M]) do(ctx context.Context) error {
	unverified := r.runner.keys.IsUnverified(r.state)
	o, err := r.observe(ctx)
	if err != nil {
		return err
	}
	if !o.Exists {
		r.forget(unverified)
		return nil
	}
	d, p := r.plan(o.Snapshot)
	if r.runner.keys.IsUnverified(r.state) && (len(p.Proof) > 0 || r.wouldWrite(o.Snapshot, d, p)) {
		if o, err = r.observeVerified(ctx, o.Snapshot); err != nil || !o.Exists {
			return err
		}
		d, p = r.plan(o.Snapshot)
	}
	if o, d, p, err = r.prove(ctx, o, d, p); err != nil {
		return err
	}
	if p.Hold.What != "" && r.runner.Brake == nil {
		return fmt.Errorf("the plan holds %s, and the controller has no brake", p.Hold.What)
	}
	r.ended = true
	if r.runner.shared.ReadOnly {
		return r.plannedOnly(ctx, o, d, p)
	}
	if r.runner.Planned != nil {
		if err := r.runner.Planned(o.Snapshot, d); err != nil {
			return err
		}
	}
	r.applyAndReport(ctx, o.Snapshot, d, p)
	did, reported := r.did, r.reported
	r.hold(p.Hold)
	if r.runner.Aliases != nil {
		r.recordAliases(r.runner.Aliases(o.Snapshot, d))
	}
	if r.runner.Applied != nil {
		r.runner.Applied(ctx, o.Snapshot, d, did, reported)
	}
	if memory, ok := r.runner.Remember(r.record.Time, o.Snapshot, d, o.Memory, did, reported); ok {
		r.runner.keys.Commit(r.state, memory, r.runner.subjectOf(o.Snapshot))
	}
	if did.Err != nil { // it decides when to reconcile again; the report then follows
		return did.Err
	}
	return reported.Err
}

func (r *run[K, S, D, M]) observe(ctx context.Context) (Observation[S, M], error) {
	return r.runner.observeKey(ctx, r.key, r.record.Time, r.runner.keys.Observed(r.state))
}

func (r *run[K, S, D, M]) plan(s S) (D, plan.Plan) {
	owner := r.runner.ownerOf(s)
	r.owner = owner
	r.runner.keys.SetOwner(r.state, controllerOf(r.name, owner))
	d, p := r.runner.Plan(r.record.Time, s)
	r.cost = time.Since(r.record.Time)
	r.record.Why, r.record.Held, r.next = p.Why, explain.Held(p.Hold), p.Requeue
	if owner != nil {
		r.record.Version = owner.GetResourceVersion()
	}
	return d, p
}

// applyAndReport carries out the plan and then the report, unless that is to wait for a newer one.
func (r *run[K, S, D, M]) applyAndReport(ctx context.Context, s S, d D, p plan.Plan) {
	barrier := &r.state.Barrier
	if !r.runner.cached() {
		barrier = &freshness.Barrier{}
	}
	writing := r.runner.executor.Begin(ctx, r.runner.ownerOf(s), barrier)
	if r.runner.Sign != nil {
		writing.Sign = func(c plan.Change) (plan.Change, error) { return r.runner.Sign(r.record.Time, c) }
	}
	r.writing, r.steps = writing, p.Steps
	if applying := r.runner.access.Hooks.Applying; applying != nil && len(p.Steps) > 0 {
		applying(ctx, Decision{Key: r.name, Owner: r.owner, Record: r.record, Steps: p.Steps})
	}
	r.did = writing.Apply(p.Steps)
	r.wrote(r.did)
	if r.runner.Report == nil {
		return
	}
	if err := r.did.Err; executor.Silent(err) || executor.PutOff(err) || err != nil && !executor.FromServer(err) {
		r.reported.Err = ErrNoReport
		return
	}
	resumed := time.Now()
	rep := r.runner.Report(r.record.Time, s, d, r.did)
	r.cost += time.Since(resumed)
	r.next, r.due = plan.Sooner(r.next, rep.Requeue), rep.Requeue
	r.state.Progressing = rep.Progressing
	if rep.Why != "" {
		r.record.Why = rep.Why
	}
	if wait := r.runner.debounce(r.state, rep, r.record.Time, r.cost); wait > 0 {
		r.next, r.report = plan.Sooner(r.next, wait), wait
		rep.Steps = nil
	}
	writing.Debounced = rep.When != plan.Now()
	r.steps = slices.Concat(r.steps, rep.Steps)
	r.reported = writing.Apply(rep.Steps)
	r.wrote(r.reported)
	switch {
	case r.reported.Err != nil:
		r.due = 0 // it cannot be reported
	case r.reported.Wrote():
		r.state.Early = false
	}
}

// wouldWrite reports whether the plan, or the report if nothing is planned, asks for a write.
func (r *run[K, S, D, M]) wouldWrite(s S, d D, p plan.Plan) bool {
	return !p.Empty() || r.runner.Report != nil && !r.runner.Report(r.record.Time, s, d, plan.Outcome{}).Empty()
}

// wrote counts the writes, and marks the key as unverified if one was not answered.
func (r *run[K, S, D, M]) wrote(did plan.Outcome) {
	r.record.Wrote += len(did.Results)
	for _, result := range did.Results {
		if !executor.Answered(result.Err) && r.runner.cached() {
			r.runner.keys.Unanswered(r.state)
			return
		}
	}
}

// waitForCache puts off a key whose caches lack its own writes. Their arrival enqueues it; the timer is a safety net.
func (r *run[K, S, D, M]) waitForCache(a keystate.Admission) {
	rec := &r.record
	rec.Waiting = a.Missing.Kind
	rec.Why = "waiting for the cache of " + a.Missing.Kind + " to catch up"
	r.next = a.Wait
	if old, ok := r.runner.explained.Get(r.name); ok && old.Why != "" {
		rec.Why, rec.Held = old.Why+"; "+rec.Why, old.Held
		if old.Waiting != "" {
			rec.Why = old.Why
		}
	}
	r.runner.stale(groupResource(a.Missing))
}

// finish decides when the key is reconciled again, and keeps the record.
func (r *run[K, S, D, M]) finish(logger klog.Logger, err error) {
	rec := &r.record
	switch {
	case err == nil:
		r.state.Early = false
		r.lookAgain()
		if r.left > 0 {
			rec.Why = strings.TrimPrefix(rec.Why+"; "+undone, "; ")
		}
		r.next = plan.Sooner(r.next, r.left)
		if rec.Waiting == "" { // to wait is no success
			r.runner.keys.Succeeded(r.state, rec.Wrote > 0, r.next)
		}
		if r.next > 0 {
			r.runner.enqueueAfter(r.key, r.next)
		}
	case executor.Silent(err) && r.runner.cached():
		// What it waits for brings an event, or the term as leader is about to end. The timer is a safety net.
		r.next = time.Second
		r.runner.enqueueAfter(r.key, r.next)
		logger.V(4).Info("Reconciles again when the cache has caught up", "reason", err.Error())
	default:
		r.retry(logger, err)
	}
	switch {
	case !r.runner.cached():
		r.cost = 0 // a cooldown is for keys that are enqueued by what many objects show
	case r.runner.shared.ReadOnly && r.cost >= costly:
		r.cost = max(r.cost, unhurried)
	}
	r.runner.keys.Release(r.key, r.state, r.cost)
	rec.Next = explain.Seconds(r.next)
	r.keepRecord()
	if decided := r.runner.access.Hooks.Decided; decided != nil && r.ended {
		decided(Decision{Key: r.name, Owner: r.owner, Record: r.record, Steps: r.steps,
			Did: slices.Concat(r.did.Results, r.reported.Results)})
	}
	if logger = logger.V(5); logger.Enabled() {
		logger.Info("Reconciled", "why", rec.Why, "wrote", rec.Wrote, "next", r.next.String())
	}
}

// lookAgain has the key reconciled again if the caches may never show what was created, adopted or found.
func (r *run[K, S, D, M]) lookAgain() {
	if r.writing == nil {
		return
	}
	if r.left = r.writing.LeftOut(); r.writing.Gained() {
		term, key := r.runner.queue, r.key
		r.state.LookAfter(vanishedAfter, func() { term.Add(key) })
	}
	switch {
	case r.writing.Taken():
		r.next = plan.Sooner(r.next, plan.Doubling(vanishedAfter, queue.MaxBackoff, r.state.Taken))
		r.state.Taken++
	default:
		r.state.Taken = 0
	}
}

func (r *run[K, S, D, M]) retry(logger klog.Logger, err error) {
	rec := &r.record
	r.runner.access.Hooks.retry()
	rec.Retries = r.runner.keys.Failed(r.state, err)
	if !executor.Silent(err) {
		rec.Error = err.Error()
	}
	line, event := r.lasts(rec.Retries)
	if r.writing != nil && event {
		r.writing.RecordFailure(r.did, r.reported)
	}
	// When the plan wanted to be made again does not count: it would be carried out no better then.
	r.next = min(r.runner.Period, queue.MaxBackoff)
	if undone := executor.UndoneFor(err); undone > 0 {
		r.next = undone
	} else if r.next <= 0 {
		r.next = queue.Backoff(rec.Retries, err)
	}
	r.next = plan.Sooner(r.next, r.report) // what can be reported does not wait for what is refused
	// Nor does the time at which there is more to report, but once: a report that has nothing new then does not make
	// the backoff shorter.
	if r.state.Early = r.due > 0 && r.due < r.next && !r.state.Early; r.state.Early {
		r.next = r.due
	}
	r.runner.enqueueAfter(r.key, r.next)
	if line && !executor.Silent(err) {
		logger.Info("Failed, will retry", "failures", rec.Retries, "after", r.next.String(), "err", err.Error())
	}
}

// lasts reports whether the log has a line for so many failures in a row, and whether there is an event.
func (r *run[K, S, D, M]) lasts(failures int) (line, event bool) {
	if lasting := r.runner.LogAfter; lasting > 0 {
		return failures == lasting, failures > lasting
	}
	// 1, 2, 4, 8, ...: a failure that lasts does not flood the log
	return failures&(failures-1) == 0, r.runner.keys.FailingFor(r.state) >= eventAfter
}

// forget drops all that is remembered of a key whose object is gone.
func (r *run[K, S, D, M]) forget(wasUnverified bool) {
	r.gone = true
	r.hold(plan.Hold{Ended: plan.NothingLeft})
	r.recordAliases(nil)
	r.runner.keys.Forget(r.state, wasUnverified)
}

// observeKey observes a key of which so much is remembered. If that is about an earlier object of the name, it is
// observed without it.
func (r *TypedRunner[K, S, D, M]) observeKey(
	ctx context.Context, key K, now time.Time, of keystate.Observed[M, Change],
) (Observation[S, M], error) {
	o, err := r.Observe(ctx, r.request(key, now, of))
	if err != nil || !o.Exists || of.Memory == nil || of.Subject == "" {
		return o, err
	}
	if r.subjectOf(o.Snapshot) == of.Subject {
		return o, nil
	}
	of.Memory = nil
	return r.Observe(ctx, r.request(key, now, of))
}

// subjectOf returns the uid of the object that the memory is about; empty if it is about more than one.
func (r *TypedRunner[K, S, D, M]) subjectOf(s S) types.UID {
	if r.Subject == nil {
		return ""
	}
	return r.Subject(s)
}

func (r *TypedRunner[K, S, D, M]) ownerOf(s S) plan.Object {
	if r.Owner == nil {
		return nil
	}
	return r.Owner(s)
}

// controllerOf returns the uid of the object's controlling owner if the key is named after the object.
func controllerOf(key plan.Key, o plan.Object) types.UID {
	if o == nil || o.GetName() != key.Name || o.GetNamespace() != key.Namespace {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID
	}
	return ""
}

func groupResource(kind schema.GroupVersionKind) schema.GroupResource {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.GroupResource()
}
