package freshness

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// store is a cache that has come as far as a version.
type store struct {
	cache.Store
	version string
}

func (s *store) LastStoreSyncResourceVersion() string { return s.version }

// cachesOf returns caches of one kind, which hold the objects and have come as far as the version.
func cachesOf(t *testing.T, kind schema.GroupVersionKind, version int, objects ...plan.Object) (Caches, *store) {
	t.Helper()
	s := &store{cache.NewStore(cache.MetaNamespaceKeyFunc), strconv.Itoa(version)}
	for _, o := range objects {
		if err := s.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	var caches Caches
	caches.Add(kind, s)
	return caches, s
}

func pod(uid, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "p", UID: types.UID(uid), ResourceVersion: "1", Labels: map[string]string{"app": app},
	}}
}

func TestVersionIsWaitedFor(t *testing.T) {
	caches, s := cachesOf(t, podKind, 5)
	var b Barrier
	b.WaitForVersion(podKind, "7")
	b.WaitForVersion(podKind, "6")
	if state := b.Check(caches); state.Open || state.Missing != podKind {
		t.Errorf("at 5: %+v", state)
	}
	s.version = "6"
	if b.Check(caches).Open {
		t.Error("the later version was forgotten for an earlier one")
	}
	if s.version = "7"; !b.Check(caches).Open || !b.Empty() {
		t.Error("at 7: not open")
	}
	b.WaitForVersion(schema.GroupVersionKind{Kind: "Lease"}, "9")
	if !b.Check(caches).Open {
		t.Error("waits for a kind that is not cached")
	}
}

// Two watches of one kind, with selectors of their own, may differ in age.
func TestAllCachesOfAKindAreWaitedFor(t *testing.T) {
	var caches Caches
	a, b := &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "5"}, &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "4"}
	caches.Add(podKind, a)
	caches.Add(podKind, b)
	if caches.Reached(podKind, "5") || !caches.Reached(podKind, "4") {
		t.Error("one of two caches is at 4, the other at 5")
	}
}

// What a live list did not have is waited for until the cache shows that it is gone, or is not selected any more: to wait
// for its end alone would be to wait for ever for a pod that only had its labels changed.
func TestAbsence(t *testing.T) {
	for name, c := range map[string]struct {
		cached []plan.Object
		open   bool
	}{
		"as it was":        {[]plan.Object{pod("1", "web")}, false},
		"relabelled":       {[]plan.Object{pod("1", "quarantine")}, true},
		"gone":             {nil, true},
		"another, of name": {[]plan.Object{pod("2", "web")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			caches, _ := cachesOf(t, podKind, 1, c.cached...)
			var b Barrier
			b.WaitForAbsence(podKind, pod("1", "web"), labels.SelectorFromSet(labels.Set{"app": "web"}))
			if state := b.Check(caches); state.Open != c.open {
				t.Errorf("%+v", state)
			}
		})
	}
}

// What a live list did not have can be asked for anew; what this process has deleted itself is waited for.
func TestDropAbsences(t *testing.T) {
	var b Barrier
	b.WaitForDeletion(podKind, pod("1", "web"), false)
	if b.DropAbsences() || len(b.changes) != 1 {
		t.Errorf("own deletion: %+v", b.changes)
	}
	b.WaitForAbsence(podKind, pod("1", "web"), labels.Everything())
	if !b.DropAbsences() || len(b.changes) != 1 || b.changes[0].selector != nil {
		t.Errorf("absence: %+v", b.changes)
	}
}

func TestDeletionIsWaitedForByUID(t *testing.T) {
	dying := pod("1", "web")
	dying.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		cached plan.Object
		open   bool
	}{
		"still there":             {pod("1", "web"), false},
		"being deleted":           {dying, true},
		"replaced under its name": {pod("2", "web"), true},
	} {
		caches, _ := cachesOf(t, podKind, 1, c.cached)
		var b Barrier
		b.WaitForDeletion(podKind, pod("1", "web"), false)
		if b.Check(caches).Open != c.open {
			t.Errorf("%s: open is %v", name, !c.open)
		}
	}
}

// Objects without a namespace are found in the caches, too.
func TestDeletionOfANode(t *testing.T) {
	kind, node := corev1.SchemeGroupVersion.WithKind("Node"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}}
	caches, s := cachesOf(t, kind, 1, node)
	var b Barrier
	b.WaitForDeletion(kind, node, false)
	if b.Check(caches).Open {
		t.Error("open while the node is cached")
	}
	if err := s.Delete(node); err != nil || !b.Check(caches).Open {
		t.Error("not open when it is gone", err)
	}
}

// A refusal that nothing explains is waited for in vain for ever longer times; one that the caches explain ends that.
func TestARefusalIsWaitedForInBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches, s := cachesOf(t, podKind, 1, pod("1", "web"))
		var b Barrier
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			b.WaitForChange(podKind, pod("1", "web"))
			time.Sleep(wait*time.Second - time.Millisecond)
			if state := b.Check(caches); state.Open || state.Unverified {
				t.Fatalf("before %d s: %+v", wait, state)
			}
			time.Sleep(2 * time.Millisecond)
			if state := b.Check(caches); !state.Open || !state.Unverified {
				t.Fatalf("after %d s: %+v", wait, state)
			}
		}
		b.WaitForChange(podKind, pod("1", "web"))
		newer := pod("1", "web")
		newer.ResourceVersion = "2"
		if err := s.Update(newer); err != nil {
			t.Fatal(err)
		}
		if state := b.Check(caches); !state.Open || state.Unverified || !b.Empty() {
			t.Errorf("explained: %+v", state)
		}
	})
}

// That the caches show a deletion of our own explains no refusal: the waits for its reason go on to double.
func TestOwnDeletionExplainsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := pod("2", "web")
		other.Name = "q"
		caches, _ := cachesOf(t, podKind, 1, pod("1", "web"))
		var b Barrier
		for range 4 {
			b.WaitForChange(podKind, pod("1", "web"))
			b.WaitForDeletion(podKind, other, false) // which the caches show
			time.Sleep(time.Minute)
			b.Check(caches)
		}
		if b.refused != 4 {
			t.Errorf("%d refusals are remembered, want 4", b.refused)
		}
	})
}

// An object that has lost its last finalizer is awaited to be gone, though it was being deleted all the time; and so is the reason of a
// refusal to write to it.
func TestRemovalOfAnObjectThatIsBeingDeleted(t *testing.T) {
	for name, wait := range map[string]func(*Barrier, *corev1.Pod){
		"removed": func(b *Barrier, p *corev1.Pod) { b.WaitForRemoval(podKind, p) },
		"refused": func(b *Barrier, p *corev1.Pod) { b.WaitForChange(podKind, p) },
	} {
		leaving := pod("1", "web")
		leaving.DeletionTimestamp = &metav1.Time{}
		caches, s := cachesOf(t, podKind, 1, leaving)
		var b Barrier
		wait(&b, leaving)
		if b.Check(caches).Open {
			t.Errorf("%s: not awaited", name)
		}
		if err := s.Delete(leaving); err != nil {
			t.Fatal(err)
		}
		if !b.Check(caches).Open {
			t.Errorf("%s: awaited for too long", name)
		}
	}
}

func TestOutdated(t *testing.T) {
	tracker, written := NewTracker(), pod("1", "web")
	written.ResourceVersion = "7"
	if got := tracker.Outdated(podKind, pod("1", "web")); got != "" {
		t.Errorf("never written: %q", got)
	}
	tracker.Wrote(podKind, written)
	tracker.Wrote(podKind, pod("1", "web")) // an answer that comes late
	if got := tracker.Outdated(podKind, pod("1", "web")); got != "7" {
		t.Errorf("observed before the write: %q", got)
	}
	if got := tracker.Outdated(podKind, written); got != "" {
		t.Errorf("as written: %q", got)
	}
}

// Versions that are no numbers can only be told apart, and are not known to be outdated.
func TestOutdatedOddVersions(t *testing.T) {
	tracker := NewTracker()
	written, other := pod("1", "web"), pod("1", "web")
	written.ResourceVersion, other.ResourceVersion = "7/2", "8/3"
	tracker.Wrote(podKind, written)
	if got := tracker.Outdated(podKind, other); got != "" {
		t.Errorf("%q", got)
	}
}

// An object that was observed before another writer of this process changed it is outdated, also when that write has been swept.
func TestOutdatedAfterTheSweep(t *testing.T) {
	tracker, newer := NewTracker(), pod("1", "web")
	newer.ResourceVersion = "7"
	s := &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "7"}
	tracker.Add(podKind, s)
	if err := s.Add(newer); err != nil {
		t.Fatal(err)
	}
	tracker.Wrote(podKind, newer)
	tracker.sweep()
	if got := tracker.Outdated(podKind, pod("1", "web")); got != "7" {
		t.Errorf("observed before the write: %q", got)
	}
	if got := tracker.Outdated(podKind, newer); got != "" {
		t.Errorf("what the cache shows is outdated by %q", got)
	}
}

// Memory follows what the caches lack, not what was ever written.
func TestWritesThatCachesShowAreForgotten(t *testing.T) {
	tracker, s := NewTracker(), &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "0"}
	tracker.Add(podKind, s)
	for i := range 10 * sweepSize {
		p := pod(strconv.Itoa(i), "web")
		p.ResourceVersion, s.version = strconv.Itoa(i+1), strconv.Itoa(i)
		tracker.Wrote(podKind, p)
	}
	if n := len(tracker.written); n > sweepSize {
		t.Errorf("%d writes are remembered", n)
	}
}

// A deletion is remembered until the caches show it, and no longer than that matters.
func TestDeletedAmong(t *testing.T) {
	tracker, s := NewTracker(), &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "1"}
	tracker.Add(podKind, s)
	p, other := pod("1", "web"), pod("2", "web")
	among := func(want ...int) {
		t.Helper()
		pods := []*corev1.Pod{other, p}
		if got := tracker.DeletedAmong(len(pods), func(i int) plan.Object { return pods[i] }); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if err := s.Add(p); err != nil {
		t.Fatal(err)
	}
	among()
	tracker.Deleted(podKind, p)
	tracker.sweep()
	among(1)
	p = pod("1", "web")
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	among()
	if err := s.Update(p); err != nil {
		t.Fatal(err)
	}
	tracker.sweep()
	if len(tracker.deleted) != 0 {
		t.Error("remembered although the cache shows the deletion")
	}
	for i := range 10 * sweepSize { // pods that no cache shows any more
		tracker.Deleted(podKind, pod(strconv.Itoa(i+2), "api"))
	}
	if n := len(tracker.deleted); n > sweepSize {
		t.Errorf("%d deletions are remembered", n)
	}
}

func TestUsable(t *testing.T) {
	if caches, _ := cachesOf(t, podKind, 1); caches.Usable() != nil {
		t.Error("a cache with a version")
	}
	var caches Caches
	caches.Add(podKind, &store{cache.NewStore(cache.MetaNamespaceKeyFunc), ""})
	if caches.Usable() == nil {
		t.Error("a cache without a version")
	}
}

// A version is our own if we have written it, or anything later. While a write is under way, somebody else may have followed it
// already.
func TestOwn(t *testing.T) {
	tracker := NewTracker()
	o := pod("a", "web")
	if tracker.Own(o) {
		t.Error("nobody has written it")
	}
	unlock, err := tracker.Lock(t.Context(), o.UID)
	if err != nil || tracker.Own(o) {
		t.Errorf("it is being written, and nobody knows by whom this version is: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tracker.Lock(ended, o.UID); !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up waits for the writer: %v", err)
	}
	unlock()
	o.ResourceVersion = "5"
	tracker.Wrote(podKind, o)
	later := pod("a", "web")
	later.ResourceVersion = "6"
	if !tracker.Own(pod("a", "web")) || !tracker.Own(o) || tracker.Own(later) {
		t.Error("own are the versions up to the one written")
	}
	tracker.BeginTerm()
	if tracker.Own(o) {
		t.Error("it was written in an earlier term")
	}
}

// A cache that several controllers read is known once, until the last of them ends. What a removed cache does not show is waited for no
// more.
func TestCachesAreKnownOnceAndRemoved(t *testing.T) {
	tracker, shared, own := NewTracker(), &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "5"},
		&store{cache.NewStore(cache.MetaNamespaceKeyFunc), "3"}
	var a, b Caches
	a.Add(podKind, shared)
	a.Add(podKind, shared)
	b.Add(podKind, shared)
	b.Add(podKind, own)
	removeA, removeB := a.Tracked(tracker), b.Tracked(tracker)
	if n := len(tracker.caches[podKind]); n != 2 {
		t.Errorf("%d caches, want 2", n)
	}
	if reached(tracker.caches[podKind], "5") {
		t.Error("a cache that lags is not waited for")
	}
	removeB()
	if n := len(tracker.caches[podKind]); n != 1 || !reached(tracker.caches[podKind], "5") {
		t.Errorf("%d caches are left, want the one that another controller reads", n)
	}
	removeA()
	if n := len(tracker.caches[podKind]); n != 0 {
		t.Errorf("%d caches are left", n)
	}
}
