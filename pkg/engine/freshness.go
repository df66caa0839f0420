package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Freshness knows how far the caches of a process have come, and what the process itself has written. All controllers of
// a process share one, so that none of them acts on an object as it was before another one wrote it.
//
// It takes the place of expectations (RS-36..40): what was written is waited for by version, without a time limit after
// which a stale cache would pass for a fresh one.
type Freshness struct {
	mu      sync.Mutex
	stores  map[schema.GroupVersionKind]cache.Store
	written map[types.UID]write     // latest own write of an object, until the store shows it
	locks   map[types.UID]*refMutex // objects that are being written
	sweepAt int                     // size of written at which it is swept
}

type write struct {
	kind    schema.GroupVersionKind
	version string
}

// refMutex is a lock of one object. It is a channel, not a mutex, because it is held during a request: in virtual time
// (testing/synctest) a goroutine that waits for a mutex keeps the clock from moving on.
type refMutex struct {
	turn  chan struct{}
	users int
}

// NewFreshness returns an empty one.
func NewFreshness() *Freshness {
	return &Freshness{
		stores:  map[schema.GroupVersionKind]cache.Store{},
		written: map[types.UID]write{},
		locks:   map[types.UID]*refMutex{},
		sweepAt: 1024,
	}
}

// Use makes the store known as the cache of a kind.
func (f *Freshness) Use(kind schema.GroupVersionKind, store cache.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stores[kind] = store
}

// Usable returns an error if the kind's store does not tell its version: without it no controller can know whether it
// sees its own writes, so it must not start.
func (f *Freshness) Usable(kind schema.GroupVersionKind) error {
	version := f.store(kind).LastStoreSyncResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("the cache of %s does not tell its version (feature gate AtomicFIFO off?): %w", kind.Kind, err)
	}
	return nil
}

// reached reports whether the kind's store has come as far as the version.
func (f *Freshness) reached(kind schema.GroupVersionKind, version string) bool {
	store := f.store(kind)
	return store == nil || atLeast(store.LastStoreSyncResourceVersion(), version)
}

// cached returns the object of that name in the kind's store, nil if there is none.
func (f *Freshness) cached(kind schema.GroupVersionKind, key plan.Key) plan.Object {
	store := f.store(kind)
	if store == nil {
		return nil
	}
	o, found, err := store.GetByKey(key.String())
	if err != nil || !found {
		return nil
	}
	object, _ := o.(plan.Object)
	return object
}

// wrote remembers the version that the server gave to an object written by this process.
func (f *Freshness) wrote(kind schema.GroupVersionKind, o plan.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before, ok := f.written[o.GetUID()]; ok && atLeast(before.version, o.GetResourceVersion()) {
		return
	}
	f.written[o.GetUID()] = write{kind, o.GetResourceVersion()}
	if len(f.written) >= f.sweepAt {
		f.sweep()
	}
}

// outdated returns the version this process has written since o was observed, "" if it has written none.
func (f *Freshness) outdated(o plan.Object) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, ok := f.written[o.GetUID()]
	if !ok || atLeast(o.GetResourceVersion(), w.version) {
		return ""
	}
	return w.version
}

// sweep forgets the writes that the stores show by now.
func (f *Freshness) sweep() {
	for uid, w := range f.written {
		if s := f.stores[w.kind]; s == nil || atLeast(s.LastStoreSyncResourceVersion(), w.version) {
			delete(f.written, uid)
		}
	}
	f.sweepAt = max(1024, 2*len(f.written))
}

// lock makes writers of one object take turns within this process, so that they never conflict with one another.
func (f *Freshness) lock(uid types.UID) (unlock func()) {
	f.mu.Lock()
	m := f.locks[uid]
	if m == nil {
		m = &refMutex{turn: make(chan struct{}, 1)}
		f.locks[uid] = m
	}
	m.users++
	f.mu.Unlock()

	m.turn <- struct{}{}
	return func() {
		<-m.turn
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.users--; m.users == 0 {
			delete(f.locks, uid)
		}
	}
}

func (f *Freshness) store(kind schema.GroupVersionKind) cache.Store {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stores[kind]
}

// atLeast reports whether version a is b or later. Versions of one resource are comparable; one that is no number (a
// store that has not synced yet) is older than any.
func atLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}

// awaited is what the caches must show before a key is planned again.
type awaited struct {
	versions map[schema.GroupVersionKind]string
	departed []departed
	refused  int  // times in a row that the server has refused a write for a reason that the caches don't show
	gaveUp   bool // the last wait for such a reason was in vain
}

// departed is an object that was deleted, or found stale, as it was cached then.
type departed struct {
	kind    schema.GroupVersionKind
	key     plan.Key
	uid     types.UID
	version string // not empty: any other version of the object will do, too
	// selector is not nil for an object that a live list did not have: it may also have left the selection.
	selector labels.Selector
	// until is when to stop waiting; zero for never. The server has refused the write, as for a conflict; if the cache
	// shows none by then, there may be none, or it lags. So the key is looked at live before its next write, which carries
	// its preconditions with it.
	until time.Time
}

// conflictPatience is how long the cache may take to show why the server has refused a write. It doubles with each refusal
// that stays unexplained, up to the longest back-off.
const conflictPatience = time.Second

func (a *awaited) patience() time.Time {
	a.refused++
	return time.Now().Add(min(conflictPatience<<min(a.refused-1, 10), lastRetry))
}

func (a *awaited) version(kind schema.GroupVersionKind, version string) {
	if a.versions == nil {
		a.versions = map[schema.GroupVersionKind]string{}
	}
	if before, ok := a.versions[kind]; !ok || !atLeast(before, version) {
		a.versions[kind] = version
	}
}

func (a *awaited) departure(kind schema.GroupVersionKind, o plan.Object, refused bool) {
	d := departed{kind: kind, key: keyOf(o), uid: o.GetUID()}
	if refused {
		d.until = a.patience()
	}
	a.departed = append(a.departed, d)
}

// absence waits until the cache shows, too, that an object is not in a selection.
func (a *awaited) absence(kind schema.GroupVersionKind, o plan.Object, selector labels.Selector) {
	a.departed = append(a.departed, departed{kind: kind, key: keyOf(o), uid: o.GetUID(), selector: selector})
}

// doubtful forgets what a comparison with the server has found missing, and reports whether there was any of that. What left
// a selection and came back at once is never seen to be missing: the comparison has to be made again.
func (a *awaited) doubtful() bool {
	before := len(a.departed)
	a.departed = slices.DeleteFunc(a.departed, func(d departed) bool { return d.selector != nil })
	return len(a.departed) < before
}

// newer waits for any later version of o: the server has refused the one that was observed.
func (a *awaited) newer(kind schema.GroupVersionKind, o plan.Object) {
	a.departed = append(a.departed, departed{kind: kind, key: keyOf(o), uid: o.GetUID(), version: o.GetResourceVersion(),
		until: a.patience()})
}

func (a *awaited) nothing() bool {
	return len(a.versions) == 0 && len(a.departed) == 0 && a.refused == 0
}

// settle drops what the caches show by now, and returns the kind of something that they don't; ok when all is shown.
func (a *awaited) settle(f *Freshness) (missing schema.GroupVersionKind, ok bool) {
	for kind, version := range a.versions {
		if !f.reached(kind, version) {
			return kind, false
		}
		delete(a.versions, kind)
	}
	for len(a.departed) > 0 {
		d := a.departed[0]
		shown := d.shown(f)
		if !shown && !d.tooLong() {
			return d.kind, false
		}
		if shown {
			a.refused = 0
		} else {
			a.gaveUp = true
		}
		a.departed = a.departed[1:]
	}
	a.departed = nil
	return missing, true
}

func (d departed) shown(f *Freshness) bool {
	o := f.cached(d.kind, d.key)
	return o == nil || o.GetUID() != d.uid || o.GetDeletionTimestamp() != nil ||
		d.version != "" && o.GetResourceVersion() != d.version ||
		d.selector != nil && !d.selector.Matches(labels.Set(o.GetLabels()))
}

func (d departed) tooLong() bool { return !d.until.IsZero() && time.Now().After(d.until) }

func keyOf(o plan.Object) plan.Key { return plan.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }
