package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Controller is a controller whose keys are the names of objects, as those of nearly all controllers are.
type Controller[S, D, M any] = TypedController[plan.Key, S, D, M]

// TypedController is a controller in its four parts. K is the type of its keys. S is its snapshot: what one reconcile
// of a key has observed, as data. D is its decision: what Plan has worked out, and the parts after it need not work out
// again. M is its memory: what it remembers of a key from one reconcile to the next, as data. A controller without a
// decision or a memory uses struct{}.
type TypedController[K comparable, S, D, M any] struct {
	Name      string // in logs, and where people ask about a key
	QueueName string // of the queue in metrics, which controllers may share; empty for Name
	Workers   int    // keys that are processed at the same time
	Watches   []TypedWatch[K]
	// KeyName is how people name a key, in logs and at /debug/explain. Keys of one namespace take turns with those of
	// others. [New] sets it for keys that are names.
	KeyName func(K) plan.Key
	// Explained are the kinds by whose objects people ask for keys, see /debug/explain.
	Explained []string
	// Verified are the kinds of which a new object makes its keys unverified after a takeover, as a previous leader may
	// have acted on it. Nil stands for those of Explained.
	Verified []string

	// Observe reads the caches and, where the contract asks for it, live. It has no side effects, so it may run
	// more than once in a reconcile.
	Observe func(ctx context.Context, r TypedRequest[K, M]) (Observation[S, M], error)
	// Plan decides what to write. It is pure. [PlanOnly] makes one of a function without a decision.
	Plan func(now time.Time, s S) (D, plan.Plan)
	// Prove puts what was read live into what was observed, because the plan of that asks for it: see
	// [plan.Plan.Proof]. The plan is then made again. It gets the observation as Observe has returned it, and all that
	// was read in this reconcile. Like Observe it has no side effects, and it leaves the observation that it is given
	// alone. It may be nil if no plan asks for anything.
	Prove func(o Observation[S, M], proof Proof) Observation[S, M]
	// Sign puts in what a [plan.Change] with Sign names, right before it is sent, and returns the change as it is
	// to be sent: to sign is an effect. It leaves the change that it is given alone. It may be nil if no plan has
	// such changes.
	Sign func(now time.Time, c plan.Change) (plan.Change, error)
	// Report decides which status to write, knowing what became of the plan. It is pure, and may be nil. It is not
	// called when something else than an answer of the server has stopped the plan. It is also called with the zero
	// Outcome, to learn whether it would write. [ReportOnly] makes one of a function that is not interested in the
	// decision.
	Report func(now time.Time, s S, d D, did plan.Outcome) plan.Plan
	// Remember says what is remembered of a key when its plan and the report were carried out, or have failed. It
	// gets the memory of the Observation. If ok is false, nothing is committed: the next Observe gets the same
	// memory and the same changes again. It is pure. Nil stands for [IfCarriedOut].
	Remember func(now time.Time, s S, d D, seen *M, did, reported plan.Outcome) (m *M, ok bool)
	// Planned gets what was decided, right before the steps are carried out. It puts into a [Term] what other keys
	// have to know by then, such as what this one is about to take. An error stops the reconcile: [plan.ErrStale] if
	// another key has taken it. It may be nil, and must be quick.
	Planned func(s S, d D) error
	// Applied gets what became of a plan and of its report, for metrics and log lines of the controller's own.
	// The outcome of the report is zero if nothing was to be written, or not yet, and has [ErrNoReport] if there is
	// none. It may be nil, and must be quick.
	Applied func(ctx context.Context, s S, d D, did, reported plan.Outcome)

	// Aliases are other names by which people ask for a key, see Explained, each with the answer that they get. Observe
	// gets such a name in the place of the key when somebody asks for the snapshot. It is pure, and may be nil.
	Aliases func(s S, d D) map[plan.Key]string
	// RecordName returns the name by which a reconcile is recorded for /debug/explain, and whether it is. Of very
	// many keys only those that fail or wait are worth the memory. It gets the record without Steps and Outcome. What
	// is not recorded drops the records of its name. Nil: each reconcile is recorded, by its KeyName.
	RecordName func(key K, rec *explain.Record) (name plan.Key, ok bool)
	// RecordStore is where reconciles are recorded for /debug/explain. Controllers that people see as one have one
	// store. Nil: the controller has a store of its own.
	RecordStore *explain.Records

	// Subject is the uid of the object that the memory is about: when another one has its name, the memory is dropped.
	// Nil stands for a memory that is about more than one object.
	Subject func(S) types.UID

	// Brake gets what plans hold, and passes it on to people and the next leader: see [plan.Plan.Hold]. It may be
	// nil if no plan holds anything.
	Brake *brake.Brake

	// Owner is the object that events are recorded on and that controls what the plan writes, unless a step says
	// Unowned; nil if there is none.
	Owner func(S) plan.Object
	// SkipVerification says that no write can do harm whatever the caches lack, for example because each names the
	// version that was observed. So nothing is read live before the first write to an unverified key. If there are no
	// Watches either, the controller has no caches: its keys do not cool down, and a stale write is retried with
	// backoff.
	SkipVerification bool
	// Live names what must be read live before the first write to a key whose caches may lack the writes of a previous
	// leader, or one of our own that was not answered. It may be nil.
	Live func(S) []Live

	// Term is what the controller knows beside its keys while the process leads; nil if that is nothing. A [Term] is
	// one.
	Term interface {
		Run(ctx context.Context, enqueue func(K), work func())
	}
	// Source, if it is not nil, enqueues keys for reasons other than changes of cached objects, such as a file that
	// has changed. It is called when the controller begins to work and all caches are filled, and returns when ctx
	// ends, or when it has no more to enqueue. [Keys] makes one of keys that are there from the beginning.
	Source func(ctx context.Context, enqueue func(K))
	// Period controllers work by the clock: a failed reconcile is not repeated with backoff, but after this time
	// (PGC-3), or after a minute if that is shorter.
	Period time.Duration
	// LogAfter is the number of failures of a key in a row at which the log has a line, once, for keys that often come
	// a moment too early. Later failures make events about writes that are refused. Zero: the log has a line at the
	// first failure, and again after twice as many; events follow after 15 seconds.
	LogAfter int
}

// PlanOnly is the Plan of a controller without a decision.
func PlanOnly[S any](p func(now time.Time, s S) plan.Plan) func(time.Time, S) (struct{}, plan.Plan) {
	return func(now time.Time, s S) (struct{}, plan.Plan) { return struct{}{}, p(now, s) }
}

// ReportOnly is the Report of a controller that needs no decision for it.
func ReportOnly[S, D any](report func(now time.Time, s S, did plan.Outcome) plan.Plan) func(time.Time, S, D,
	plan.Outcome) plan.Plan {
	return func(now time.Time, s S, _ D, did plan.Outcome) plan.Plan { return report(now, s, did) }
}

// IfCarriedOut remembers what Observe has returned if all writes were carried out: for what was acted upon.
func IfCarriedOut[S, D, M any](_ time.Time, _ S, _ D, seen *M, did, reported plan.Outcome) (*M, bool) {
	return seen, did.Err == nil && reported.Err == nil
}

// Always remembers what Observe has returned, whatever became of the writes: for what was seen.
func Always[S, D, M any](_ time.Time, _ S, _ D, seen *M, _, _ plan.Outcome) (*M, bool) {
	return seen, true
}

// RememberOutcome remembers what the function makes of the outcome of the plan, whatever that was and whatever
// became of the report: for a memory of which a part is what was seen, and another part what was acted upon.
func RememberOutcome[S, D, M any](remember func(now time.Time, s S, d D, did plan.Outcome) *M) func(time.Time, S, D, *M,
	plan.Outcome, plan.Outcome) (*M, bool) {
	return func(now time.Time, s S, d D, _ *M, did, _ plan.Outcome) (*M, bool) {
		return remember(now, s, d, did), true
	}
}

// Keys is a Source of keys that no object is named after.
func Keys[K comparable](keys ...K) func(context.Context, func(K)) {
	return func(_ context.Context, enqueue func(K)) {
		for _, key := range keys {
			enqueue(key)
		}
	}
}

// Request is what Observe gets of a key that is a name.
type Request[M any] = TypedRequest[plan.Key, M]

// TypedRequest is what Observe gets.
type TypedRequest[K comparable, M any] struct {
	Key K
	// Now goes on steadily while the clock of the machine jumps and the API server has not said that it is right to.
	Now    time.Time
	Reader client.Reader // reads live, as the controller's own identity; each read is bounded in time
	// Memory is what was committed of an earlier Observation of the key; nil the first time, and when nothing was
	// remembered. It must not be changed.
	Memory *M
	// Changes are those that watches with Record have seen since the memory was last committed, in order.
	Changes []Change
	// Missed says that there were more changes than are kept: those in Changes are the latest.
	Missed bool
	// Failure is how the last reconcile of the key has failed; nil if it has not. That a cache lags is no failure.
	Failure error
	// Failures is how many reconciles of the key in a row have failed.
	Failures int
}

// Observation is what Observe returns.
type Observation[S, M any] struct {
	Exists   bool // false: the key's object is gone, and all that is remembered of it is forgotten
	Snapshot S
	Memory   *M // what to remember, see [Controller.Remember]; nil for nothing
}

// Change is a change of a cached object. Before is nil for a new object, After for one that is gone.
type Change struct {
	Before, After plan.Object
	Time          time.Time // when this process has seen it
}

// newGeneration reports whether the object of that name has a new generation: somebody has changed what it asks for.
func (c Change) newGeneration(name plan.Key) bool {
	return c.Before != nil && c.After != nil && c.Before.GetGeneration() != c.After.GetGeneration() &&
		plan.KeyOf(c.After) == name
}

func (c Change) object() plan.Object {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// Watch is a watch for keys that are names.
type Watch = TypedWatch[plan.Key]

// TypedWatch says which keys a change of a cached object enqueues.
type TypedWatch[K comparable] struct {
	Kind     schema.GroupVersionKind
	Informer cache.SharedIndexInformer
	// Enqueues maps a change to keys: before is nil for a new object, after for a deleted one. It must be quick.
	Enqueues func(before, after plan.Object) []K
	// Delay returns the time between a change and the reconcile of a key that it enqueues; nil for none. If it is
	// negative, the change is only recorded, for a key that is reconciled in time anyway.
	Delay func(K) time.Duration
	// Record hands the changes themselves to the next Observe of the keys.
	Record bool
	// RecordLatest does the same, but of the changes of one object only the latest one is handed on: Before is then
	// the object right before that one. It is for objects that change often, such as Leases.
	RecordLatest bool
	// RecordNews does the same as Record, but not for objects that were there before the controller began: the
	// first Observe finds them in the caches.
	RecordNews bool
	// Resync: re-deliveries of unchanged objects enqueue, too (CI-14).
	Resync bool
	// Ignore names new objects that enqueue nothing, unless they were there before the controller began (EP-7). It
	// may be nil.
	Ignore func(added plan.Object) bool
	// Missing reports whether the API server does not serve the kind: the controller then works without it, and its
	// cache is not waited for. Once the kind is served, its objects enqueue. It is nil for a kind that must be
	// there.
	Missing func() bool
}

func (w TypedWatch[K]) missing() bool { return w.Missing != nil && w.Missing() }

// Live is a set of objects to compare with the cache.
type Live struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Selector  labels.Selector
	Cached    []plan.Object // what the cache shows of the set

	Name string // of the only object of the set; empty for any
	// Shared: a list will do that began up to a second ago, for whichever key. It is for sets that many keys have in
	// common, if what is looked for is from before the process began to lead.
	Shared bool
}

// Shared is what all controllers of a process have in common.
type Shared struct {
	Tracker Tracker
	Mapper  client.KindMapper
	// Verifier reads live, to compare the caches with the server. Its identity may list whatever controllers watch;
	// their own often may not. Nil: caches are trusted.
	Verifier client.Reader
	Clock    Clock // where controllers get the time
	// ReadOnly: the process only observes. What controllers plan is recorded, and not carried out.
	ReadOnly bool
}

// Tracker knows what this process has written. All controllers of a process share one, so that none of them acts on an
// object as it was before another one wrote it.
type Tracker interface {
	// BeginTerm is called when this process begins to lead. What it wrote before is no longer its own.
	BeginTerm()
	// Own reports whether this process, since it began to lead, has written the version of an object that a watch
	// shows, or a later one.
	Own(o plan.Object) bool
	// DeletedAmong returns the positions, below n, of those objects that this process has deleted although a cache does
	// not show that yet.
	DeletedAmong(n int, object func(position int) plan.Object) (positions []int)
	// Outdated returns the version that this process has written since o was observed, or that a cache shows since
	// then; "" if there is none.
	Outdated(kind schema.GroupVersionKind, o plan.Object) (version string)
	// Lock makes writers of one object take turns. It fails if ctx ends before it is the caller's turn.
	Lock(ctx context.Context, uid types.UID) (unlock func(), err error)
	// Wrote remembers the version that the server gave to an object.
	Wrote(kind schema.GroupVersionKind, o plan.Object)
	// Deleted remembers that this process has deleted an object.
	Deleted(kind schema.GroupVersionKind, o plan.Object)
	// Add makes a store known as a cache of the kind that a controller reads, until it is removed.
	Add(kind schema.GroupVersionKind, store cache.Store)
	Remove(kind schema.GroupVersionKind, store cache.Store)
}

// Clock has the time. The zero Clock is that of the machine.
type Clock struct{ now func() time.Time }

// ClockOf returns a clock by which it is what the function returns.
func ClockOf(now func() time.Time) Clock { return Clock{now} }

// Now returns the time.
func (c Clock) Now() time.Time {
	if c.now == nil {
		return time.Now()
	}
	return c.now()
}

// Access is what one controller has for itself: how it reaches the API server, under its own identity and limits (CI-5,
// CI-20), and who learns what it does.
type Access struct {
	Client client.Client
	Events record.EventRecorder // nil: events are dropped
	// Method says how objects of a resource are changed, see [executor.Config]; nil: by patch.
	Method func(resource schema.GroupResource, subresource string) client.Method
	// MayGet says whether objects of a resource may be read live, see [executor.Config]; nil: they may.
	MayGet func(resource schema.GroupResource) bool
	Hooks  Hooks
}

// With returns a copy that changes objects and reads live as these rights allow.
func (a Access) With(rights rbac.Rights) Access {
	a.Method = func(resource schema.GroupResource, subresource string) client.Method {
		return client.MethodFor(rights, resource, subresource)
	}
	a.MayGet = func(resource schema.GroupResource) bool { return client.MayGet(rights, resource) }
	return a
}

// OnStale returns a copy that also calls a function of the controller for each reconcile that was put off because the
// cache of a resource lacks own writes.
func (a Access) OnStale(own func(schema.GroupResource)) Access {
	others := a.Hooks.Stale
	a.Hooks.Stale = func(resource schema.GroupResource) {
		if others != nil {
			others(resource)
		}
		own(resource)
	}
	return a
}
