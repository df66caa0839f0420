package freshness

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Tracker knows what this process has written. All controllers of a process share one, so that none of them acts on an
// object as it was before another one wrote it.
type Tracker struct {
	mu     sync.Mutex
	caches map[schema.GroupVersionKind][]cache.Store // each once
	users  map[cache.Store]int                       // how many controllers read a cache
	// the latest write to an object by this process, until all caches show it
	written map[types.UID]write
	deleted map[types.UID]change      // objects that this process has deleted, until all caches show it
	locks   map[types.UID]*objectLock // of objects that are being written
	sweepAt int                       // size of written and deleted at which they are swept
	term    int                       // the number of times that this process has begun to lead
}

// write is the latest version of an object that this process has written, and in which term.
type write struct {
	kind    schema.GroupVersionKind
	version string
	// term is the number of the term as leader. What an earlier one has written is not our own any more.
	term int
}

// objectLock is a lock of one object. It is a channel, not a mutex, because it is held during a request: in virtual
// time (testing/synctest) a goroutine that waits for a mutex keeps the clock from moving on.
type objectLock struct {
	turn  chan struct{}
	users int
}

const sweepSize = 1024

// NewTracker returns an empty tracker.
func NewTracker() *Tracker {
	return &Tracker{
		caches:  map[schema.GroupVersionKind][]cache.Store{},
		users:   map[cache.Store]int{},
		written: map[types.UID]write{},
		deleted: map[types.UID]change{},
		locks:   map[types.UID]*objectLock{},
		sweepAt: sweepSize,
	}
}

// BeginTerm is called when this process begins to lead. What it wrote before is no longer its own (see
// [Tracker.Own]), but an object in a cache that does not show it is still outdated.
func (t *Tracker) BeginTerm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.term++
}

// Wrote remembers the version that the server gave to an object written by this process.
func (t *Tracker) Wrote(kind schema.GroupVersionKind, o plan.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, ok := t.written[o.GetUID()]; ok && atLeast(before.version, o.GetResourceVersion()) {
		return
	}
	t.written[o.GetUID()] = write{kind, o.GetResourceVersion(), t.term}
	t.sweepIfLarge()
}

// Deleted remembers that this process has deleted an object, which may still be there until its grace period is over.
func (t *Tracker) Deleted(kind schema.GroupVersionKind, o plan.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted[o.GetUID()] = change{kind: kind, key: plan.KeyOf(o), uid: o.GetUID()}
	t.sweepIfLarge()
}

// DeletedAmong returns the positions, below n, of those objects that this process has deleted although they, as a cache
// shows them, are not being deleted.
func (t *Tracker) DeletedAmong(n int, object func(position int) plan.Object) (positions []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.deleted) == 0 {
		return nil
	}
	for i := range n {
		o := object(i)
		if _, ok := t.deleted[o.GetUID()]; ok && o.GetDeletionTimestamp() == nil {
			positions = append(positions, i)
		}
	}
	return positions
}

// Outdated returns the version that this process has written since o was observed, or that a cache shows since then;
// "" if there is none. The caches are asked, too, because writes that they show are swept.
func (t *Tracker) Outdated(kind schema.GroupVersionKind, o plan.Object) string {
	t.mu.Lock()
	w, ok := t.written[o.GetUID()]
	caches := t.caches[kind]
	t.mu.Unlock()
	if ok && earlier(o.GetResourceVersion(), w.version) {
		return w.version
	}
	now := lookUp(caches, plan.KeyOf(o))
	if now == nil || now.GetUID() != o.GetUID() || atLeast(o.GetResourceVersion(), now.GetResourceVersion()) {
		return ""
	}
	return now.GetResourceVersion()
}

// Own reports whether this process, since it began to lead, has written the version of an object that a watch shows,
// or a later one. What it wrote in an earlier term counts as the write of another process, because others may have
// changed what it depends on since. Of a version that a watch shows before the answer to the write has come, this is
// not known yet, and the answer is no.
func (t *Tracker) Own(o plan.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.written[o.GetUID()]
	return ok && w.term == t.term && atLeast(w.version, o.GetResourceVersion())
}

// sweepIfLarge sweeps if many writes are remembered.
func (t *Tracker) sweepIfLarge() {
	if len(t.written)+len(t.deleted) >= t.sweepAt {
		t.sweep()
	}
}

// sweep forgets the writes that all caches show by now.
func (t *Tracker) sweep() {
	for uid, w := range t.written {
		if reached(t.caches[w.kind], w.version) {
			delete(t.written, uid)
		}
	}
	for uid, c := range t.deleted {
		if c.shown(Caches{t.caches}) {
			delete(t.deleted, uid)
		}
	}
	t.sweepAt = max(sweepSize, 2*(len(t.written)+len(t.deleted)))
}

// Lock makes writers of one object take turns within this process, so that they never conflict with one another. It
// fails if ctx ends before it is the caller's turn.
func (t *Tracker) Lock(ctx context.Context, uid types.UID) (unlock func(), err error) {
	t.mu.Lock()
	l := t.locks[uid]
	if l == nil {
		l = &objectLock{turn: make(chan struct{}, 1)}
		t.locks[uid] = l
	}
	l.users++
	t.mu.Unlock()

	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.locks, uid)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Caches are those that one controller reads. The zero Caches are none.
type Caches struct {
	stores map[schema.GroupVersionKind][]cache.Store
}

// Add adds a store as a cache of the kind, unless it is there. It is called before the caches are used, not while
// they are.
func (c *Caches) Add(kind schema.GroupVersionKind, store cache.Store) (added bool) {
	if slices.Contains(c.stores[kind], store) {
		return false // the controller has two watches of it
	}
	if c.stores == nil {
		c.stores = map[schema.GroupVersionKind][]cache.Store{}
	}
	c.stores[kind] = append(c.stores[kind], store)
	return true
}

// Tracked makes the caches of a controller known to a tracker, until stop is called.
func (c Caches) Tracked(by interface {
	Add(kind schema.GroupVersionKind, store cache.Store)
	Remove(kind schema.GroupVersionKind, store cache.Store)
}) (stop func()) {
	each := func(do func(schema.GroupVersionKind, cache.Store)) {
		for kind, stores := range c.stores {
			for _, store := range stores {
				do(kind, store)
			}
		}
	}
	each(by.Add)
	return func() { each(by.Remove) }
}

// Add makes the store known as a cache of the kind that a controller reads, until it is removed as often as it was
// added.
func (t *Tracker) Add(kind schema.GroupVersionKind, store cache.Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users[store]++; t.users[store] == 1 {
		t.caches[kind] = append(slices.Clip(t.caches[kind]), store)
	}
}

// Remove forgets a cache of a controller that does not run any more, so that nobody waits for what it does not come to
// show.
func (t *Tracker) Remove(kind schema.GroupVersionKind, store cache.Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users[store]--; t.users[store] > 0 {
		return
	}
	delete(t.users, store)
	t.caches[kind] = slices.DeleteFunc(slices.Clone(t.caches[kind]),
		func(other cache.Store) bool { return other == store })
}

// Usable returns an error if a cache does not report its version: without it no controller can know whether it sees its
// own writes, so it must not start. The caches have been filled.
func (c Caches) Usable() error {
	for kind, stores := range c.stores {
		for _, store := range stores {
			version := store.LastStoreSyncResourceVersion()
			if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
				return fmt.Errorf("the cache of %s does not tell its version (feature gate AtomicFIFO off?): %w",
					kind.Kind, err)
			}
		}
	}
	return nil
}

// Reached reports whether the caches of the kind have come as far as the version. Without a cache of the kind there is
// nothing to wait for.
func (c Caches) Reached(kind schema.GroupVersionKind, version string) bool {
	return reached(c.stores[kind], version)
}

// reached reports whether all stores have come as far as a version.
func reached(stores []cache.Store, version string) bool {
	for _, store := range stores {
		if !atLeast(store.LastStoreSyncResourceVersion(), version) {
			return false
		}
	}
	return true
}

// get returns the cached object of that name, nil if there is none.
func (c Caches) get(kind schema.GroupVersionKind, key plan.Key) plan.Object {
	return lookUp(c.stores[kind], key)
}

// lookUp finds an object in one of the stores; nil if none has it.
func lookUp(stores []cache.Store, key plan.Key) plan.Object {
	name := key.String()
	if key.Namespace == "" {
		name = key.Name
	}
	for _, store := range stores {
		if o, found, err := store.GetByKey(name); err == nil && found {
			object, _ := o.(plan.Object)
			return object
		}
	}
	return nil
}

// atLeast reports whether version a is b or later. Versions of one resource are comparable; the answer is false if
// one of them is no number, such as that of a store that has not been filled yet.
func atLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}

// earlier reports whether a version is known to be older than another one. Those that cannot be compared are not.
func earlier(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
