package plan

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is any API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects returns a list of objects of one type as one of objects of any type.
func Objects[T Object](all []T) []Object {
	objects := make([]Object, len(all))
	for i, o := range all {
		objects[i] = o
	}
	return objects
}

// Plan is what one reconcile of one key wants written. The zero Plan writes nothing and waits for an event.
type Plan struct {
	// Proof is what must have been read live in this reconcile before the plan is carried out, because it destroys
	// something. The engine reads what it has not read yet, and plans again with what it has found. It is ignored in a
	// report.
	Proof []Ref
	// Hold is what the plan leaves alone until there is proof. The engine passes it on to people and the next leader,
	// by the brake of the controller. It is ignored in a report.
	Hold    Hold
	Steps   []Step        // in order; the first failure stops the plan
	Requeue time.Duration // reconcile again after this; zero waits for an event
	Why     string        // what was decided and what is being waited for, for people
	When    When          // of reports only: when it is written
	// Progressing, of reports only: more is about to change by itself, so work on the key is in progress and comes
	// before new work.
	Progressing bool
}

// Sooner returns the smaller of two waits, where zero stands for none.
func Sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Doubling returns how long to wait after so many waits before: the first is the shortest, each later one is twice
// as long as the one before it, and none is longer than the longest.
func Doubling(shortest, longest time.Duration, before int) time.Duration {
	if before = max(before, 0); before > 62 || shortest > longest>>before {
		return longest
	}
	return shortest << before
}

// Empty reports whether the plan asks for nothing.
func (p Plan) Empty() bool { return len(p.Steps) == 0 }

// Step is one of [Create], [CreateAll], [Change], [Delete], [DeleteCollection], [Each] and [RecordEvent].
type Step interface{ step() }

// Create creates Count copies of Object (zero means one). Many copies go out in slow-start batches (1, 2, 4, ...),
// and no further batch after one with a failure (RS-26). A name that is taken is a failure, because the cache was
// stale, unless IfAbsent is set.
type Create struct {
	Object   Object
	Count    int
	IfAbsent bool // an object of that name is as good as the one to be created
	Unowned  bool // Object need not be controlled by the plan's owner
	// Selector is what the owner finds the object by. A creation from which it comes back with labels that the
	// selector does not match has failed: an admission webhook takes them, and would do so with the next one, too.
	// Nil if nothing is looked for by labels.
	Selector *metav1.LabelSelector
	Events   Events
	Why      string
}

// CreateAll creates different objects of one kind, in slow-start batches like the copies of [Create].
type CreateAll struct {
	Objects  []Object
	Unowned  bool                  // the objects need not be controlled by the plan's owner
	Selector *metav1.LabelSelector // as of [Create]
	Events   Events
	Why      string
}

// Status is the subresource that controllers write most.
const Status = "status"

// Change brings Old, as it was observed, to New. Only the difference is written; no difference, no write. Whether
// it is sent as an update or as a patch follows from the kind and from the rights of the controller, not from the
// step, unless Apply is set.
//
// One reconcile may change an object and its status, in either order. The second step begins with what the first
// has made: its Old is the New of the first, and it is sent with the version that the server has returned. If it is
// sent as an update, and the first one as a patch, that one needs CheckVersion.
type Change struct {
	Old, New Object
	// Kind is that of the object, where Old and New are of another one, as a Scale is for a Deployment; empty for
	// their own.
	Kind        schema.GroupVersionKind
	Subresource string // such as [Status], "scale", "approval" or "finalize"; empty for the object itself
	// Apply sends New by server-side apply: it has the fields that the manager owns, and no others. Old may be nil.
	Apply *Apply
	// FieldManager is that of the change, unless it is applied; empty leaves it to the API server, which takes it from
	// the user agent.
	FieldManager string
	// Sign names what the executor has the controller put in right before the change is sent, such as a signature:
	// to sign is an effect, and no plan holds a credential. A change with Sign is sent whether or not Old and New
	// differ.
	Sign []string
	// New gains the plan's owner as controller: the owner is read live before the first adoption of a reconcile
	Adopt        bool
	Unowned      bool // Old need not be controlled by the plan's owner
	CheckVersion bool // the resourceVersion of Old is a precondition, also where a patch or an apply is sent
	Touch        bool // it is sent although nothing differs, see [Touch]
	Events       Events
	Why          string
}

// Touch returns the change that has the server write an object as it is, which it then does in the version in which
// it stores the kind now. If the object has changed since it was observed, or is gone, the write is needless. If the
// server refuses the object as it is, the result says so ([Result.Refused]), and the plan is carried on.
func Touch(o Object, fieldManager string) Change {
	return Change{Old: o, New: o, FieldManager: fieldManager, Touch: true, CheckVersion: true, Unowned: true}
}

// Apply says how server-side apply is done.
type Apply struct {
	FieldManager string
	Force        bool // takes over fields that other managers own, where it would be a conflict otherwise
}

// Delete deletes the objects in parallel, each under the precondition of its uid. An object that is gone, or was
// replaced by another one of the same name, counts as deleted.
type Delete struct {
	Objects      []Object
	Grace        *int64                     // seconds; nil leaves it to the object
	CheckVersion bool                       // also make the resourceVersion a precondition
	Propagation  metav1.DeletionPropagation // empty leaves it to the kind
	Evict        bool                       // of pods: by the eviction API, which heeds PodDisruptionBudgets (429)
	Unowned      bool                       // the objects need not be controlled by the plan's owner
	Events       Events
	Why          string
}

// DeleteCollection deletes all objects of a kind in a namespace, as they are when the request arrives: without
// preconditions, and nothing is awaited in the caches. Its only use is to empty a namespace that is being deleted.
// Where the server has no such request for the kind, its objects are listed live and deleted one by one.
type DeleteCollection struct {
	Kind        schema.GroupVersionKind
	Namespace   string
	Propagation metav1.DeletionPropagation // empty leaves it to the kind
	Why         string
}

// Each runs sequences of steps that do not stop one another: a failure ends its own sequence only. The step as a whole
// fails when one of them did. Of many sequences that begin with a Create, the rest is left to the next try when 20 in a
// row are refused.
type Each struct{ Sequences [][]Step }

// RecordEvent records an event about an object without writing to it. It never fails.
type RecordEvent struct {
	Object Object
	Event  Event
}

func (Create) step()           {}
func (CreateAll) step()        {}
func (Change) step()           {}
func (Delete) step()           {}
func (Each) step()             {}
func (RecordEvent) step()      {}
func (DeleteCollection) step() {}

// Events are recorded on the plan's owner for every object that a step wrote (Done) or failed to write (Failed). An
// event without Reason is not recorded.
type Events struct{ Done, Failed Event }

// Event is a Kubernetes event. In Message, {name} stands for the name of the written object and {error} for the error.
type Event struct{ Type, Reason, Message string }

// Verb says how an object was written.
type Verb string

// The verbs of an [Outcome].
const (
	Created Verb = "create"
	Changed Verb = "change"
	Deleted Verb = "delete"
)

// Result is one write that was tried.
type Result struct {
	Verb        Verb
	Object      Object // as planned (of a Change: New; of a DeleteCollection: its kind and namespace)
	Subresource string
	Name        string    // of the object that was written, also when the server made it up
	UID         types.UID // likewise; empty if the write failed, and for deletions
	Version     string    // likewise: its resourceVersion
	// of a deletion or a touch: the object was gone, replaced, or changed, where that is a precondition
	Needless bool
	// of a touch: the server does not take the object as it is, for the reason in Err. That stops no plan.
	Refused bool
	Err     error // nil: done, or needless (already gone, namespace terminating)
}

// Outcome is what became of a plan's steps, in the order in which the writes ended.
type Outcome struct {
	Results []Result
	Err     error // what stopped the plan; nil when every step was done
	// the namespace is terminating or gone: the rest was left undone, and that is no error (RS-28, DEP-26)
	Stopped bool
}

// Failed returns the first error among the writes of the given verb, nil if there is none.
func (o Outcome) Failed(v Verb) error {
	for _, r := range o.Results {
		if r.Verb == v && r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// Wrote reports whether any write was tried.
func (o Outcome) Wrote() bool { return len(o.Results) > 0 }

// ErrStale says that a write was not sent, or was refused, because the plan rested on an older version of the object
// than the one this process has seen or written. It is never shown to users: the key is reconciled again.
var ErrStale = errors.New("planned from an outdated version of the object")

// Key names the object that a plan is about.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(o metav1.Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// Typed returns objects that are all of the type T as such. It panics over one of another type.
func Typed[T Object](objects []Object) []T {
	all := make([]T, len(objects))
	for i, o := range objects {
		all[i] = o.(T)
	}
	return all
}
