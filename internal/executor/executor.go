package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// parallelWrites bounds the requests that one controller has under way at a time.
const parallelWrites = 32

// Tracker knows what this process has written, see [freshness.Tracker].
type Tracker interface {
	Lock(ctx context.Context, uid types.UID) (unlock func(), err error)
	Outdated(kind schema.GroupVersionKind, o plan.Object) (version string)
	Wrote(kind schema.GroupVersionKind, o plan.Object)
	Deleted(kind schema.GroupVersionKind, o plan.Object)
}

// Config is what an executor needs to know.
type Config struct {
	Client  client.Client
	Mapper  client.KindMapper
	Events  record.EventRecorder // nil: events are dropped
	Tracker Tracker
	// Method says how objects of a resource, or a subresource of them, are changed; nil: by patch.
	Method func(resource schema.GroupResource, subresource string) client.Method
	// MayGet reports whether objects of a resource may be read live; nil: they may. Where they may not, the executor
	// does not find out which object has a name that exists already.
	MayGet func(resource schema.GroupResource) bool
	// Periodic: the controller works by the clock. After a conflict it waits for no cache, so that one object does
	// not keep the key from all others.
	Periodic bool

	// Written is called for each write that has ended: create, update, patch or delete, of which resource, with the
	// code of HTTP, "<error>" if the server did not answer. It may be nil.
	Written func(verb, resource, code string)
	// is called for each change that was not sent because it was outdated; may be nil
	Stale func(schema.GroupResource)
}

// Executor carries out the plans of one controller. It refuses what no plan may ask for: a write to an object that
// the plan's owner does not control, a second change of one object, or of its status, in a reconcile, a change from
// an outdated object.
type Executor struct {
	Config
	// slots bound the requests under way, and are given out by turns of namespaces and owners.
	slots *queue.Slots
	// undone knows which writes came to nothing, so that they are not made again and again.
	undone undone

	mu sync.Mutex
	// lastWrite is for reports, which wait until the controller has written nothing else for a while.
	lastWrite time.Time
}

// New returns an executor.
func New(c Config) *Executor { return &Executor{Config: c, slots: queue.NewSlots(parallelWrites)} }

// InFlight counts the writes that are under way.
func (e *Executor) InFlight() int { return e.slots.Used() }

// LastWrite returns when something was last written, debounced reports aside.
func (e *Executor) LastWrite() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lastWrite
}

// Writing is the writing of one reconcile.
type Writing struct {
	*Executor
	Debounced bool // what is written is a debounced report, which [Executor.LastWrite] leaves out
	// Sign puts in what a change with Sign names, and returns the change as it is sent; nil if no plan has such
	// changes.
	Sign func(plan.Change) (plan.Change, error)

	ctx   context.Context
	owner plan.Object // nil: the controller writes to objects that nobody owns
	// barrier gets what the caches must show before the key is reconciled again.
	barrier *freshness.Barrier

	mu      sync.Mutex    // guards what follows, and barrier
	gained  bool          // see Gained
	taken   bool          // see Taken
	leftOut time.Duration // see LeftOut
	// outcome is that of the steps that are being carried out.
	outcome         plan.Outcome
	failureReported bool // an event was recorded of a write that has failed
	// touched says what this reconcile has written, by the uid of the object.
	touched  map[types.UID]touch
	mayAdopt func() error // reads the owner live, once; nil before the first adoption
}

// touch is what one reconcile has done to an object.
type touch struct {
	object, status, deleted bool
	version                 string                        // that the server returned; empty before it has answered
	made                    plan.Object                   // what was sent
	answer                  *metav1.PartialObjectMetadata // what the server has made of that
	// nobody else can have written between what was observed and that version
	only bool
}

// Begin begins the writing of one reconcile. The owner, which may be nil, is what events are recorded on, and controls
// what is written; the barrier knows what the caches must show before the next reconcile.
func (e *Executor) Begin(ctx context.Context, owner plan.Object, barrier *freshness.Barrier) *Writing {
	return &Writing{Executor: e, ctx: ctx, owner: owner, barrier: barrier}
}

// Apply carries out the steps in order until one fails, and returns what became of them.
func (w *Writing) Apply(steps []plan.Step) plan.Outcome {
	w.outcome = plan.Outcome{}
	w.outcome.Err = w.sequence(steps)
	return w.outcome
}

// longStep is how long a step may take before what follows is planned anew.
const longStep = time.Second

// sequence carries out steps until one fails, or until the rest has become too old. Events that follow a step tell of
// it, and are never too old. Batches of creations go on: a slow server must not make each the only one.
func (w *Writing) sequence(steps []plan.Step) error {
	var late error
	for i, s := range steps {
		if _, event := s.(plan.RecordEvent); late != nil && !event {
			return late
		}
		began := time.Now()
		if err := w.step(s); err != nil {
			return err
		}
		if w.stopped() {
			return nil
		}
		if took := time.Since(began); took > longStep && !moreOf(s, steps[i+1:]) {
			late = fmt.Errorf("%w: the step before took %v", plan.ErrStale, took.Round(time.Millisecond))
		}
	}
	return nil
}

// moreOf reports whether a batch of creations is followed by more creations.
func moreOf(s plan.Step, next []plan.Step) bool {
	_, batch := s.(plan.Each)
	return batch && len(next) > 0 && creates(s) && creates(next[0])
}

// creates reports whether a step does nothing but create objects that have names.
func creates(s plan.Step) bool {
	switch s := s.(type) {
	case plan.Create:
		return s.Object.GetName() != ""
	case plan.Each:
		return !slices.ContainsFunc(s.Sequences, func(sequence []plan.Step) bool {
			return slices.ContainsFunc(sequence, func(s plan.Step) bool { return !creates(s) })
		})
	}
	return false
}

// step carries out one step. It is the only place that knows which kinds of steps there are.
func (w *Writing) step(s plan.Step) error {
	switch s := s.(type) {
	case plan.Create:
		return w.create(slices.Repeat([]plan.Object{s.Object}, max(1, s.Count)), s)
	case plan.CreateAll:
		return w.create(s.Objects, plan.Create{Unowned: s.Unowned, Selector: s.Selector, Events: s.Events, Why: s.Why})
	case plan.Change:
		return w.change(s)
	case plan.Delete:
		return w.delete(s)
	case plan.DeleteCollection:
		return w.deleteCollection(s)
	case plan.Each:
		return w.each(s.Sequences)
	case plan.RecordEvent:
		w.record(s.Object, s.Event, "", nil)
		return nil
	}
	return fmt.Errorf("unknown step %T", s)
}

// allow refuses a second write to an object in one reconcile, and a write to one that is not the owner's. The
// object, its status and its deletion are one write each, of which the deletion is the last.
func (w *Writing) allow(m client.Mapping, o plan.Object, now touch, unowned bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := identity(m, o)
	before := w.touched[id]
	if before.deleted || before.object && now.object || before.status && now.status {
		return fmt.Errorf("refused: second write to %s %s in one reconcile", m.Kind, o.GetName())
	}
	before.object, before.status, before.deleted = before.object || now.object, before.status || now.status, now.deleted
	if w.touched == nil {
		w.touched = map[types.UID]touch{}
	}
	w.touched[id] = before
	if unowned || w.owner == nil || o.GetUID() == w.owner.GetUID() || controls(w.owner, o) {
		return nil
	}
	return fmt.Errorf("refused: write to %s %s, which %s does not control", m.Kind, o.GetName(), w.owner.GetName())
}

// send makes one request that writes to a namespace, when its turn has come.
func (w *Writing) send(namespace string, request func(context.Context) error) error {
	release, err := w.takeSlot(namespace)
	if err != nil {
		return err
	}
	defer release()
	return request(w.ctx)
}

// takeSlot waits for the turn of a request that writes to a namespace.
func (w *Writing) takeSlot(namespace string) (release func(), err error) {
	var owner types.UID
	if w.owner != nil {
		owner = w.owner.GetUID()
	}
	namespace = queue.TurnsOf(w.ctx, namespace)
	if err := w.slots.Take(w.ctx, namespace, owner); err != nil {
		return nil, err
	}
	return func() { w.slots.Release(namespace) }, nil
}

// await gives the barrier what to wait for.
func (w *Writing) await(expect func(*freshness.Barrier)) { w.set(func() { expect(w.barrier) }) }

// get reads the metadata of an object live.
func (w *Writing) get(m client.Mapping, o plan.Object) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	return found, w.Client.Get(w.ctx, m, plan.KeyOf(o), found)
}

// remember notes what the server has answered to a write.
func (w *Writing) remember(m client.Mapping, made plan.Object) {
	w.Tracker.Wrote(m.GroupVersionKind, made)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.barrier.WaitForVersion(m.GroupVersionKind, made.GetResourceVersion())
}

// result notes what became of a write, for the outcome. Writes end in parallel.
func (w *Writing) result(r plan.Result) {
	w.set(func() { w.outcome.Results = append(w.outcome.Results, r) })
}

// Gained reports whether objects were created or adopted.
func (w *Writing) Gained() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gained
}

// set changes what the writes of a reconcile share, as they end in parallel.
func (w *Writing) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// Taken reports whether a creation found that its object exists, and nobody may read which version of it the caches
// have to show.
func (w *Writing) Taken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

// stopped reports whether the rest is to be left undone.
func (w *Writing) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcome.Stopped
}

// ended notes that a write has ended.
func (w *Writing) ended(m client.Mapping, verb string, err error) {
	if errors.Is(err, client.ErrNotLeading) {
		return
	}
	if !w.Debounced {
		w.Executor.mu.Lock()
		w.lastWrite = time.Now()
		w.Executor.mu.Unlock()
	}
	if w.Written != nil {
		w.Written(verb, m.Resource, codeOf(verb, err))
	}
}

// ownerLives reads the owner live before the first adoption of a reconcile (RS-14, DEP-8).
func (w *Writing) ownerLives() error {
	m, err := w.Mapper.MappingFor(w.ctx, w.owner)
	if err != nil {
		return err
	}
	found, err := w.get(m, w.owner)
	switch {
	case err != nil:
		return fmt.Errorf("adopt for %s %s: %w", m.Kind, w.owner.GetName(), err)
	case found.GetUID() != w.owner.GetUID():
		return fmt.Errorf("adopt for %s %s: it was replaced by another one of that name", m.Kind, w.owner.GetName())
	case found.GetDeletionTimestamp() != nil:
		return fmt.Errorf("adopt for %s %s: it is being deleted", m.Kind, w.owner.GetName())
	}
	return nil
}

// controls reports whether an object has the owner as its controller. An owner of another namespace does not
// count.
func controls(owner, o plan.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == owner.GetUID() && o.GetNamespace() == owner.GetNamespace()
}

// identity distinguishes objects: by uid, or by kind and name where nobody has observed the object, which is then
// applied.
func identity(m client.Mapping, o plan.Object) types.UID {
	if uid := o.GetUID(); uid != "" {
		return uid
	}
	return types.UID(m.GroupVersionKind.String() + " " + plan.KeyOf(o).String())
}

// nameOf is how errors and events call an object, which may get its name from the server.
func nameOf(o plan.Object) string {
	if o.GetName() != "" {
		return o.GetName()
	}
	return o.GetGenerateName() + "*"
}
