package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// parallelWrites bounds the requests that one controller has under way at a time.
const parallelWrites = 32

// Lease tells whether this process may write.
type Lease interface{ Held() bool }

// executor is the one place that writes. It refuses what no plan may ask for: a write without the lease, to an object
// that the plan's owner does not own, a second write to one object in a pass, a change from an outdated object.
type executor struct {
	api    API
	fresh  *Freshness
	lease  Lease
	events record.EventRecorder
	hooks  Hooks
	wrote  lastWrite
	early  *rate.Limiter // of reports that don't wait as long as they may
	slots  chan struct{}
	free   bool // writes objects that the plan's owner does not control
	// byClock: a conflict is met again in the next cycle; one object does not keep the key from all others.
	byClock bool
}

// pass is the writing that one look at one key leads to.
type pass struct {
	*executor
	ctx     context.Context
	owner   plan.Object // nil: the controller writes to objects that nobody owns
	awaited *awaited

	debounced bool // a report that was debounced is written: it is no lastWrite

	mu       sync.Mutex
	outcome  plan.Outcome
	touched  map[types.UID]touch
	mayAdopt func() error // reads the owner live, once
}

// touch is what a pass has done to an object.
type touch struct {
	status  bool   // nothing but its status was written
	version string // that the server returned
}

func (e *executor) pass(ctx context.Context, owner plan.Object, a *awaited) *pass {
	p := &pass{executor: e, ctx: ctx, owner: owner, awaited: a, touched: map[types.UID]touch{}}
	p.mayAdopt = once(p.ownerLives)
	return p
}

// apply does the steps in order until one fails, and returns what became of them.
func (p *pass) apply(steps []plan.Step) plan.Outcome {
	p.outcome = plan.Outcome{}
	p.outcome.Err = p.sequence(steps)
	return p.outcome
}

func (p *pass) sequence(steps []plan.Step) error {
	for _, s := range steps {
		if err := p.step(s); err != nil {
			return err
		}
		if p.stopped() {
			return nil
		}
	}
	return nil
}

func (p *pass) step(s plan.Step) error {
	switch s := s.(type) {
	case plan.Create:
		return p.create(s)
	case plan.Change:
		return p.change(s)
	case plan.Delete:
		return p.delete(s)
	case plan.Each:
		return inParallel(len(s.Sequences), func(i int) error { return p.sequence(s.Sequences[i]) })
	}
	return fmt.Errorf("unknown step %T", s)
}

// create sends copies in batches of 1, 2, 4, ...; the first batch with a failure is the last (RS-26).
func (p *pass) create(s plan.Create) error {
	k, err := KindOf(s.Object)
	if err != nil {
		return err
	}
	if p.owner != nil && !p.free && !controls(p.owner, s.Object) {
		return fmt.Errorf("create %s %s: it would not be controlled by %s", k.Kind, nameOf(s.Object), p.owner.GetName())
	}
	for left, batch := max(1, s.Count), 1; left > 0 && !p.stopped(); batch *= 2 {
		n := min(batch, left)
		left -= n
		if err := inParallel(n, func(int) error { return p.createOne(k, s) }); err != nil {
			return fmt.Errorf("create %s %s: %w", k.Kind, nameOf(s.Object), err)
		}
	}
	return nil
}

func (p *pass) createOne(k Kind, s plan.Create) error {
	// A copy, because the encoder writes to the object while it encodes it, and others do the same in parallel.
	object := s.Object.DeepCopyObject().(plan.Object)
	var made plan.Object
	err := p.send(func(ctx context.Context) (err error) {
		made, err = p.api.Create(ctx, k, object)
		return err
	})
	p.note(k, "create", err)
	switch {
	case err == nil:
		p.remember(k, made)
		p.emit(s.Events.Done, made.GetName(), nil)
	case namespaceTerminating(err): // RS-28, DEP-26: not worth a word
		p.stop()
		return nil
	case apierrors.IsAlreadyExists(err) && s.Object.GetName() != "":
		err = p.lookUp(k, s.Object, err)
	case !silent(err):
		p.emit(s.Events.Failed, nameOf(s.Object), err)
	}
	p.result(plan.Result{Verb: plan.Created, Object: s.Object, Err: err})
	return err
}

// lookUp makes the key wait until the cache shows the object whose name is taken.
func (p *pass) lookUp(k Kind, o plan.Object, taken error) error {
	found, err := p.get(p.ctx, k, keyOf(o))
	if err != nil {
		return taken
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited.version(k.GroupVersionKind, found.GetResourceVersion())
	return fmt.Errorf("%w: %w", plan.ErrStale, taken)
}

func (p *pass) change(s plan.Change) error {
	k, err := KindOf(s.New)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(s.Old, s.New) {
		return nil // a write that changes nothing is none
	}
	if err := p.mayWrite(k, s.Old, touch{status: s.Status}, s.Adopt); err != nil {
		return err
	}
	defer p.fresh.lock(s.Old.GetUID())()
	if version := p.fresh.outdated(s.Old); version != "" {
		p.mu.Lock()
		p.awaited.version(k.GroupVersionKind, version)
		p.mu.Unlock()
		p.hooks.stale(schema.GroupResource{Group: k.Group, Resource: k.Resource})
		return plan.ErrStale
	}
	if s.Adopt {
		if err := p.mayAdopt(); err != nil {
			return err
		}
	}
	made, err := p.write(k, s)
	if made == nil && err == nil {
		return nil // a difference that a patch does not show, as between nil and empty
	}
	p.note(k, verbOf(k, s.Status), err)
	switch {
	case err == nil:
		p.remember(k, made)
		p.emit(s.Events.Done, s.New.GetName(), nil)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && p.owner == nil:
		err = fmt.Errorf("%w: %w", plan.ErrStale, err)
		p.awaitNewer(k, s.Old)
	case apierrors.IsNotFound(err) && p.owner != nil && s.Old.GetUID() != p.owner.GetUID():
		err = nil // gone meanwhile: its event is on the way (RS-21, RS-22)
	case apierrors.IsInvalid(err) && released(p.owner, s):
		err = nil // the owner reference is gone already (RS-21)
	case err != nil && !silent(err):
		p.emit(s.Events.Failed, s.New.GetName(), err)
	}
	p.result(plan.Result{Verb: plan.Changed, Object: s.New, Status: s.Status, Err: err})
	if err != nil {
		return fmt.Errorf("change %s %s: %w", k.Kind, s.New.GetName(), err)
	}
	return nil
}

// write sends one change in the manner of its kind. It returns nil for a change that the manner cannot express.
func (p *pass) write(k Kind, s plan.Change) (made plan.Object, err error) {
	var patch []byte
	if !k.put(s.Status) {
		if patch, err = patchOf(k, s.Old, s.New); err != nil || patch == nil {
			return nil, err
		}
	}
	err = p.send(func(ctx context.Context) (err error) {
		if k.put(s.Status) {
			made, err = p.api.Update(ctx, k, s.New, s.Status)
		} else {
			made, err = p.api.Patch(ctx, k, s.Old.GetNamespace(), s.Old.GetName(), patch, s.Status)
		}
		return err
	})
	return made, err
}

// verbOf says how a kind is changed, in the API's own word.
func verbOf(k Kind, status bool) string {
	if k.put(status) {
		return "update"
	}
	return "patch"
}

func (p *pass) delete(s plan.Delete) error {
	return inParallel(len(s.Objects), func(i int) error { return p.deleteOne(s, s.Objects[i]) })
}

// deleteOne deletes under the precondition of the uid: a namesake that took the object's place is never hit.
func (p *pass) deleteOne(s plan.Delete, o plan.Object) error {
	k, err := KindOf(o)
	if err != nil {
		return err
	}
	version := p.latest(o)
	if err := p.mayWrite(k, o, touch{}, false); err != nil {
		return err
	}
	uid := o.GetUID()
	opts := metav1.DeleteOptions{GracePeriodSeconds: s.Grace, Preconditions: &metav1.Preconditions{UID: &uid}}
	if s.Version {
		opts.Preconditions.ResourceVersion = &version
	}
	err = p.send(func(ctx context.Context) error {
		return p.api.Delete(ctx, k, o.GetNamespace(), o.GetName(), opts)
	})
	p.note(k, "delete", err)
	conflict := apierrors.IsConflict(err)
	gone := apierrors.IsNotFound(err) || conflict
	if err == nil {
		p.emit(s.Events.Done, o.GetName(), nil)
	} else if gone {
		err = nil
	} else if !silent(err) {
		p.emit(s.Events.Failed, o.GetName(), err)
	}
	if err == nil && !(gone && s.Version) && !(conflict && p.byClock) {
		p.mu.Lock()
		p.awaited.departure(k.GroupVersionKind, o, conflict)
		p.mu.Unlock()
	}
	p.result(plan.Result{Verb: plan.Deleted, Object: o, Err: err})
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", k.Kind, o.GetName(), err)
	}
	return nil
}

// mayWrite refuses a second write to an object in one pass, unless it deletes what only had its status written, and a
// write to one that is not the owner's.
func (p *pass) mayWrite(k Kind, o plan.Object, now touch, adopt bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.touched[o.GetUID()]; ok && (!before.status || now.status) {
		return fmt.Errorf("refused: second write to %s %s in one pass", k.Kind, o.GetName())
	}
	p.touched[o.GetUID()] = now
	if adopt || p.free || p.owner == nil || o.GetUID() == p.owner.GetUID() || controls(p.owner, o) {
		return nil
	}
	return fmt.Errorf("refused: write to %s %s, which %s does not control", k.Kind, o.GetName(), p.owner.GetName())
}

// latest is the object's version as this pass has left it.
func (p *pass) latest(o plan.Object) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.touched[o.GetUID()]; before.version != "" {
		return before.version
	}
	return o.GetResourceVersion()
}

// once returns a function that calls f the first time and returns what that returned. Unlike with sync.OnceValue, who
// has to wait for the first call waits on a channel: f makes a request, see refMutex.
func once(f func() error) func() error {
	turn := make(chan struct{}, 1)
	var called bool
	var err error
	return func() error {
		turn <- struct{}{}
		defer func() { <-turn }()
		if !called {
			err, called = f(), true
		}
		return err
	}
}

// ownerLives reads the owner live before the first adoption of a pass (RS-14, DEP-8).
func (p *pass) ownerLives() error {
	k, err := KindOf(p.owner)
	if err != nil {
		return err
	}
	found, err := p.get(p.ctx, k, keyOf(p.owner))
	switch {
	case err != nil:
		return fmt.Errorf("adopt for %s %s: %w", k.Kind, p.owner.GetName(), err)
	case found.GetUID() != p.owner.GetUID():
		return fmt.Errorf("adopt for %s %s: it was replaced by a namesake", k.Kind, p.owner.GetName())
	case found.GetDeletionTimestamp() != nil:
		return fmt.Errorf("adopt for %s %s: it is being deleted", k.Kind, p.owner.GetName())
	}
	return nil
}

// send makes one request, if the lease is held when its turn has come.
func (p *pass) send(request func(context.Context) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
	if !p.lease.Held() {
		return ErrNotLeading
	}
	return request(p.ctx)
}

// awaitNewer makes the key wait for a later version of an object that the server has refused to change.
func (p *pass) awaitNewer(k Kind, o plan.Object) {
	if p.byClock {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited.newer(k.GroupVersionKind, o)
}

// get reads an object live.
func (e *executor) get(ctx context.Context, k Kind, key plan.Key) (plan.Object, error) {
	return e.api.Get(ctx, k, key.Namespace, key.Name)
}

func (p *pass) remember(k Kind, made plan.Object) {
	p.fresh.wrote(k.GroupVersionKind, made)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited.version(k.GroupVersionKind, made.GetResourceVersion())
	if t, ok := p.touched[made.GetUID()]; ok {
		t.version = made.GetResourceVersion()
		p.touched[made.GetUID()] = t
	}
}

func (p *pass) result(r plan.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcome.Results = append(p.outcome.Results, r)
}

func (p *pass) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcome.Stopped = true
}

func (p *pass) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome.Stopped
}

func (p *pass) note(k Kind, verb string, err error) {
	if errors.Is(err, ErrNotLeading) {
		return
	}
	if !p.debounced {
		p.wrote.set(time.Now())
	}
	p.hooks.write(verb, k, err)
}

// emit records an event on the owner. Recording never blocks and never fails a pass (CI-45).
func (p *pass) emit(e plan.Event, name string, err error) {
	if e.Reason == "" || p.owner == nil || p.events == nil {
		return
	}
	message := strings.ReplaceAll(e.Message, "{name}", name)
	if err != nil {
		message = strings.ReplaceAll(message, "{error}", err.Error())
	}
	p.events.Event(p.owner, e.Type, e.Reason, message)
}

func controls(owner, o plan.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == owner.GetUID() && o.GetNamespace() == owner.GetNamespace()
}

// released reports whether the change takes the owner's reference off an object.
func released(owner plan.Object, s plan.Change) bool {
	return owner != nil && controls(owner, s.Old) && !controls(owner, s.New)
}

func nameOf(o plan.Object) string {
	if o.GetName() != "" {
		return o.GetName()
	}
	return o.GetGenerateName() + "*"
}

// inParallel calls f with 0..n-1, a bounded number at a time, and returns the first error in the order of the numbers.
func inParallel(n int, f func(int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	panics := make([]any, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, parallelWrites) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				func() {
					defer func() { panics[i] = recover() }()
					errs[i] = f(i)
				}()
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if panics[i] != nil {
			panic(panics[i]) // where the key's own guard stands
		}
		if err != nil {
			return err
		}
	}
	return nil
}
