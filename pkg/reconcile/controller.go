package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Controller is a controller in its four parts. S is its snapshot: what one reconcile of a key has observed, as data. M is
// its memory: what it remembers of a key from one reconcile to the next, as data; a controller without one uses struct{}.
type Controller[S, M any] struct {
	Name      string   // unique in the process: in logs, and where people ask about a key
	QueueName string   // of the queue in metrics, which controllers may share; empty for Name
	Workers   int      // keys that are processed at the same time
	Kinds     []string // of the objects that keys are named after, for /debug/explain and to verify new objects after a takeover
	Watches   []Watch

	// Observe reads the caches and, where the contract asks for it, live. It has no side effects, so it may run more than
	// once in a reconcile.
	Observe func(ctx context.Context, r Request[M]) (Observation[S, M], error)
	// CommitAlways commits the memory also when a write of the reconcile has failed: the memory is what was seen. Without it
	// the memory is what was acted upon, and the next Observe gets the same memory and changes again.
	CommitAlways bool
	// Remember returns what to remember of a key in place of the memory of the Observation, for a memory of which a part is what was
	// seen and another part what was acted upon. It is called when the plan was carried out, or has failed, and what it returns is
	// committed, whatever becomes of the report. It is pure, and may be nil.
	Remember func(now time.Time, s S, did plan.Outcome) *M
	// Plan decides what to write. It is pure.
	Plan func(now time.Time, s S) plan.Plan
	// Report decides which status to write, knowing what became of the plan. It is pure, and may be nil. It is not
	// called when something else than an answer of the server has stopped the plan. It is also called with the zero Outcome,
	// to learn whether it would write.
	Report func(now time.Time, s S, did plan.Outcome) plan.Plan
	// Applied is told what became of a plan, for metrics and log lines of the controller's own. It may be nil, and must be
	// quick.
	Applied func(ctx context.Context, s S, did plan.Outcome)

	// Reported is told what became of a report, under the same terms as Applied; the outcome is zero if nothing was to be written, or
	// not yet.
	Reported func(ctx context.Context, s S, did, reported plan.Outcome)

	// Stale is told of each reconcile that was put off because the cache of a resource lacks own writes, for metrics of the
	// controller's own. It may be nil.
	Stale func(schema.GroupResource)

	// Owner is the object that events are recorded on and that owns what the plan writes; nil if there is none.
	Owner func(S) plan.Object
	// Unowned controllers write objects that their Owner does not control; it is only what events are about.
	Unowned bool
	// Live names what must be read live before the first write to a key whose caches may lack the writes of a previous
	// leader, or one of our own that was not answered. It may be nil.
	Live func(S) []Live

	// Source, if it is not nil, enqueues keys for reasons other than changes of cached objects, such as a file that has changed. It
	// is called when the controller begins to work, and returns when ctx ends.
	Source func(ctx context.Context, enqueue func(plan.Key))
	// InitialKeys are reconciled once all caches are filled, whether or not an object enqueues them.
	InitialKeys []plan.Key
	// Period controllers work by the clock: a failed reconcile is not repeated with backoff, but after this time (PGC-3).
	Period time.Duration
	// Backoff returns how long a key waits after that many failures in a row; nil for [queue.Backoff].
	Backoff func(key plan.Key, failures int, err error) time.Duration
}

// Request is what Observe gets.
type Request[M any] struct {
	Key    plan.Key
	Now    time.Time
	Reader client.Reader // reads live, as the controller's own identity; each read is bounded in time
	// Memory is what was committed of an earlier Observation of the key; nil the first time, and when nothing was
	// remembered. It must not be changed.
	Memory *M
	// Changes are those that watches with Record have seen since the memory was last committed, in order.
	Changes []Change
	// Failure is how the last reconcile of the key has failed; nil if it has not. That a cache lags is no failure.
	Failure error
}

// Observation is what Observe returns.
type Observation[S, M any] struct {
	Exists   bool // false: the key's object is gone, and all that is remembered of it is forgotten
	Snapshot S
	Memory   *M // what to remember if the reconcile is carried out; nil for nothing
}

// Change is a change of a cached object. Before is nil for a new object, After for one that is gone.
type Change struct{ Before, After plan.Object }

// Watch says which keys a change of a cached object enqueues.
type Watch struct {
	Kind     schema.GroupVersionKind
	Informer cache.SharedIndexInformer
	// Enqueues maps a change to keys: before is nil for a new object, after for a deleted one. It must be quick.
	Enqueues func(before, after plan.Object) []plan.Key
	// Delay returns the time between a change and the reconcile of a key that it enqueues; nil for none.
	Delay func(plan.Key) time.Duration
	// Record hands the changes themselves to the next Observe of the keys.
	Record bool
	// RecordNews does the same, but not for objects that were there before the controller began: the first Observe finds them in
	// the caches.
	RecordNews bool
	// Resync: re-deliveries of unchanged objects enqueue, too (CI-14).
	Resync bool
	// Ignore names new objects that enqueue nothing, unless they were there before the controller began (EP-7). It may be nil.
	Ignore func(added plan.Object) bool
}

// Live is a set of objects to compare with the cache.
type Live struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Selector  labels.Selector
	Cached    []plan.Object // what the cache shows of the set

	Name string // of the only object of the set; empty for any
}

// Shared is what all controllers of a process have in common.
type Shared struct {
	Tracker *freshness.Tracker
	Mapper  executor.Mapper
	Lease   executor.Lease
	Explain *Explain
	// Verifier reads live, to compare the caches with the server. Its identity may list whatever controllers watch; their own
	// often may not. Nil: caches are trusted.
	Verifier client.Reader
}

// Access is what one controller has for itself: how it reaches the API server, under its own identity and limits (CI-5,
// CI-20), and who is told what it does.
type Access struct {
	Client client.Client
	Events record.EventRecorder // nil: events are dropped
	// Method says how objects of a resource are changed, see [executor.Config]; nil: by patch.
	Method func(resource schema.GroupResource, subresource string) client.Method
	// MayGet tells whether objects of a resource may be read live, see [executor.Config]; nil: they may.
	MayGet func(resource schema.GroupResource) bool
	Hooks  Hooks
}
