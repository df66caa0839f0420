package freshness

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Barrier is a read-your-writes barrier: what the caches must show before a key is reconciled again. The zero Barrier
// is open. It is not safe for concurrent use.
type Barrier struct {
	// versions are those that the caches of a kind must have reached.
	versions map[schema.GroupVersionKind]string
	// changes are what the caches must show of single objects, in the order in which they are waited for.
	changes []change
	refused int // times in a row that the server has refused a write for a reason that the caches don't show
}

// change is something about an object that the caches must come to show: that it is gone or, with a version or a
// selector, that it is different.
type change struct {
	kind schema.GroupVersionKind
	key  plan.Key
	// uid is that of the object: another one of the name will do, too.
	uid     types.UID
	version string // not empty: any other version of the object will do, too
	// selector is not nil for an object that a live list did not have: it may also have left the selection.
	selector labels.Selector
	// until is when to stop waiting; zero for never. The server has refused the write, as for a conflict; if the caches
	// show no reason by then, there may be none, or they lag.
	until time.Time
}

// conflictWait is how long the caches may take to show why the server has refused a write. It doubles with each refusal
// that stays unexplained, up to the longest backoff.
const conflictWait = time.Second

// WaitForVersion waits until the caches of the kind have come as far as the version.
func (b *Barrier) WaitForVersion(kind schema.GroupVersionKind, version string) {
	if b.versions == nil {
		b.versions = map[schema.GroupVersionKind]string{}
	}
	if before, ok := b.versions[kind]; !ok || !atLeast(before, version) {
		b.versions[kind] = version
	}
}

// WaitForDeletion waits until the caches show that o is gone, or is being deleted. Deletions are tracked by uid,
// because the answer to a deletion need not have a version. Refused says that the server found another object than o
// under its name: then there is an end to the waiting.
func (b *Barrier) WaitForDeletion(kind schema.GroupVersionKind, o plan.Object, refused bool) {
	c := change{kind: kind, key: plan.KeyOf(o), uid: o.GetUID()}
	if refused {
		c.until = b.refusal()
	}
	b.changes = append(b.changes, c)
}

// WaitForChange waits for any later version of o: the server has refused to write to the one that was observed.
func (b *Barrier) WaitForChange(kind schema.GroupVersionKind, o plan.Object) {
	b.changes = append(b.changes, change{
		kind: kind, key: plan.KeyOf(o), uid: o.GetUID(), version: o.GetResourceVersion(), until: b.refusal(),
	})
}

// WaitForRemoval waits until the caches show that o is gone, after a change has removed its last finalizer. The answer
// to that change has the old version. The wait is bounded, because a webhook may have undone the change.
func (b *Barrier) WaitForRemoval(kind schema.GroupVersionKind, o plan.Object) {
	b.changes = append(b.changes, change{
		kind: kind, key: plan.KeyOf(o), uid: o.GetUID(), version: o.GetResourceVersion(),
		until: time.Now().Add(queue.MaxBackoff),
	})
}

// WaitForAbsence waits until the caches show that o is gone or not selected any more: a live list did not have it.
func (b *Barrier) WaitForAbsence(kind schema.GroupVersionKind, o plan.Object, selector labels.Selector) {
	b.changes = append(b.changes, change{kind: kind, key: plan.KeyOf(o), uid: o.GetUID(), selector: selector})
}

// DropAbsences forgets what [Barrier.WaitForAbsence] waits for, and reports whether there was any of that. What left a
// selection and came back at once is never seen to be missing: the live list has to be made again.
func (b *Barrier) DropAbsences() bool {
	before := len(b.changes)
	b.changes = slices.DeleteFunc(b.changes, func(c change) bool { return c.selector != nil })
	return len(b.changes) < before
}

// Explained forgets how often the server has refused a write without a reason that the caches show.
func (b *Barrier) Explained() { b.refused = 0 }

// Empty reports whether the barrier has nothing to wait for and nothing to remember.
func (b *Barrier) Empty() bool {
	return len(b.versions) == 0 && len(b.changes) == 0 && b.refused == 0
}

// State is what a barrier finds.
type State struct {
	Open    bool
	Missing schema.GroupVersionKind // not open: a kind whose caches lack something
	// Unverified: the caches have not come to show why the server refused a write, and are not waited for any longer.
	// They have to be compared with the server before the next write.
	Unverified bool
}

// Check drops what the caches show by now and says whether anything is left.
func (b *Barrier) Check(caches Caches) (s State) {
	for kind, version := range b.versions {
		if !caches.Reached(kind, version) {
			return State{Missing: kind}
		}
		delete(b.versions, kind)
	}
	for i, c := range b.changes {
		switch {
		case c.shown(caches):
			if !c.until.IsZero() { // the caches explain a refusal
				b.refused = 0
			}
		case !c.until.IsZero() && time.Now().After(c.until):
			s.Unverified = true
		default:
			b.changes = b.changes[i:]
			return State{Missing: c.kind, Unverified: s.Unverified}
		}
	}
	b.changes = nil
	s.Open = true
	return s
}

// refusal notes that the server has refused a write, and returns until when the reason is waited for.
func (b *Barrier) refusal() time.Time {
	b.refused++
	return time.Now().Add(plan.Doubling(conflictWait, queue.MaxBackoff, b.refused-1))
}

// shown reports whether the caches show the change: the object is gone, replaced, being deleted, of another
// version, or no longer selected.
func (c change) shown(caches Caches) bool {
	o := caches.get(c.kind, c.key)
	return o == nil || o.GetUID() != c.uid || c.version == "" && o.GetDeletionTimestamp() != nil ||
		c.version != "" && o.GetResourceVersion() != c.version ||
		c.selector != nil && !c.selector.Matches(labels.Set(o.GetLabels()))
}
