package keystate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// change is what the tests record.
type change struct{}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// A change of an object whose siblings are in progress has the priority that they have, until all are done.
func TestWorkGroupsShareTheirPriority(t *testing.T) {
	k := New[plan.Key, int, change]()
	is := func(what, name string, owner types.UID, want queue.Priority) {
		t.Helper()
		if got := k.Priority(plan.Key{Name: name}, queue.Changed, owner); got != want {
			t.Errorf("%s: priority of %s is %+v, want %+v", what, name, got, want)
		}
	}
	waitSince := func(s *State[int, change], since time.Time) { k.setReport(s, debounced{since: since}) }
	first, second := time.Unix(100, 0), time.Unix(200, 0)
	web, shop := queue.Priority{Level: queue.Changed, Owner: "web"}, queue.Priority{Level: queue.Changed, Owner: "shop"}
	inProgress := queue.Priority{Level: queue.InProgress, Since: first.UnixNano()}
	a, b := k.get(plan.Key{Name: "a"}), k.get(plan.Key{Name: "b"})
	a.owner, b.owner = "web", "web"

	is("before", "b", "web", web)
	is("before, and its object is not at hand", "b", "", web)
	is("nothing is known of it", "c", "", queue.Priority{Level: queue.Changed})
	waitSince(a, first)
	is("a has begun", "a", "", inProgress)
	is("a has begun", "b", "web", inProgress)
	is("a has begun", "c", "shop", shop)
	waitSince(b, second)
	is("both have", "b", "", inProgress)
	k.setReport(a, debounced{})
	is("a has reported", "a", "", inProgress)
	a.Progressing = true
	k.Succeeded(a, false, 0)
	is("a waits for what changes by itself", "a", "", inProgress)
	a.Progressing = false
	k.Succeeded(a, false, 0)
	is("a is done", "a", "", web)
	is("a is done", "b", "", inProgress)
	k.Forget(b, false)
	is("b is gone", "a", "web", web)
	if len(k.groups) != 0 {
		t.Errorf("left: %v", k.groups)
	}
}

// lagging is a cache that has come as far as a version.
type lagging struct {
	cache.Store
	version int
}

func (l *lagging) LastStoreSyncResourceVersion() string { return strconv.Itoa(l.version) }

// bench is the states of a controller's keys, over one cache of pods.
type bench struct {
	*States[plan.Key, int, change]
	cache  *lagging
	caches freshness.Caches
}

func newBench() *bench {
	b := &bench{States: New[plan.Key, int, change](), cache: &lagging{cache.NewStore(cache.MetaNamespaceKeyFunc), 1}}
	b.caches.Add(podKind, b.cache)
	return b
}

// Times before and after any cooldown that a reconcile of this test begins.
func early() time.Time { return time.Now().Add(-time.Hour) }
func late() time.Time  { return time.Now().Add(time.Hour) }

func TestKeyState(t *testing.T) {
	key := plan.Key{Name: "a"}
	type event = func(b *bench, s *State[int, change])
	var (
		unverify    event = func(b *bench, _ *State[int, change]) { b.Unverify(key) }
		verified    event = func(b *bench, s *State[int, change]) { b.Verified(s) }
		unanswered  event = func(b *bench, s *State[int, change]) { b.Unanswered(s) }
		record      event = func(b *bench, _ *State[int, change]) { b.Record(key, change{}) }
		remember    event = func(b *bench, s *State[int, change]) { b.Commit(s, ptr.To(7), "") }
		commit      event = func(b *bench, s *State[int, change]) { b.Observed(s); b.Commit(s, nil, "") }
		write       event = func(_ *bench, s *State[int, change]) { s.Barrier.WaitForVersion(podKind, "5") }
		catchUp     event = func(b *bench, _ *State[int, change]) { b.cache.version = 5 }
		report      event = func(b *bench, s *State[int, change]) { b.setReport(s, debounced{since: time.Now()}) }
		reported    event = func(b *bench, s *State[int, change]) { b.setReport(s, debounced{}) }
		progressing event = func(_ *bench, s *State[int, change]) { s.Progressing = true }
		rest        event = func(_ *bench, s *State[int, change]) { s.Progressing = false }
		fail        event = func(b *bench, s *State[int, change]) { b.Failed(s, errors.New("no")) }
		wrote       event = func(b *bench, s *State[int, change]) { b.Succeeded(s, true, 0) }
		unchanged   event = func(b *bench, s *State[int, change]) { b.Succeeded(s, false, 0) }
		forget      event = func(b *bench, s *State[int, change]) { b.Observed(s); b.Forget(s, true) }
		comeBack    event = func(b *bench, s *State[int, change]) { b.Forget(s, false) }
		release     event = func(b *bench, s *State[int, change]) { b.Release(key, s, 0) }
		releaseLate event = func(b *bench, s *State[int, change]) { b.Release(key, s, time.Second) }
		admit       event = func(b *bench, _ *State[int, change]) { b.Admit(key, b.caches, late()) }
		admitEarly  event = func(b *bench, _ *State[int, change]) { b.Admit(key, b.caches, early()) }
	)
	for _, c := range []struct {
		name       string
		events     []event
		kept       bool
		unverified bool
		wait       time.Duration // of the next attempt
		failing    int
		debounced  int
		inProgress bool
		changes    int
	}{
		{name: "nothing happened", events: []event{admit, release}},
		{name: "of a previous leader", events: []event{unverify}, kept: true, unverified: true},
		{name: "verified", events: []event{unverify, admit, verified, release}},
		{name: "a write was not answered", events: []event{admit, unanswered, fail, release}, kept: true, unverified: true, failing: 1},
		{name: "and is verified", events: []event{admit, unanswered, fail, release, admit, verified, unchanged, release}},
		{name: "stale", events: []event{admit, write, wrote, release}, kept: true, wait: 20 * time.Millisecond},
		{name: "stale for long", events: append([]event{admit, write, wrote, release}, slices.Repeat([]event{admit, release}, 20)...),
			kept: true, wait: time.Second},
		{name: "not stale any more", events: []event{admit, write, wrote, release, admit, release, catchUp, admit, unchanged, release}},
		{name: "failed", events: []event{admit, fail, release, admit, fail, release}, kept: true, failing: 1},
		{name: "recovered", events: []event{admit, fail, release, admit, wrote, release}},
		{name: "cooling down", events: []event{admit, releaseLate}, kept: true},
		{name: "cooled down", events: []event{admit, releaseLate, admit, release}},
		{name: "asked again while it cools down", events: []event{admit, releaseLate, admitEarly}, kept: true},
		{name: "a report waits", events: []event{admit, report, wrote, release}, kept: true, debounced: 1, inProgress: true},
		{name: "a report is written", events: []event{admit, report, release, admit, reported, wrote, release}, kept: true,
			inProgress: true},
		{name: "and nothing is left to do", events: []event{admit, report, release, admit, reported, unchanged, release}},
		{name: "something changes by itself", events: []event{admit, report, release, admit, progressing, reported, unchanged, release},
			kept: true, inProgress: true},
		{name: "something changes by itself, and no report has waited", events: []event{admit, progressing, wrote, release}, kept: true,
			inProgress: true},
		{name: "and comes to rest",
			events: []event{admit, report, release, admit, progressing, reported, unchanged, release, admit, rest, unchanged, release}},
		{name: "remembers", events: []event{admit, remember, release}, kept: true},
		{name: "remembers no more", events: []event{admit, remember, release, admit, commit, release}},
		{name: "has changes to tell", events: []event{record, record}, kept: true, changes: 2},
		{name: "has told them", events: []event{record, admit, commit, release}},
		{name: "gone", events: []event{unverify, record, admit, remember, write, report, fail, forget, release}},
		{name: "gone and come back", events: []event{admit, unverify, record, report, fail, comeBack, release}, kept: true,
			unverified: true, changes: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench()
			for _, e := range c.events {
				e(b, b.get(key))
			}
			s := b.all[key]
			if (s != nil) != c.kept {
				t.Fatalf("kept: %v (%+v)", s != nil, s)
			}
			if debounced, failing := b.Counts(); debounced != c.debounced || failing != c.failing {
				t.Errorf("%d debounced, %d failing", debounced, failing)
			}
			if got := b.Priority(key, queue.Changed, "").Level == queue.InProgress; got != c.inProgress {
				t.Errorf("in progress: %v", got)
			}
			if s == nil {
				return
			}
			if s.unverified != c.unverified || len(s.changes.all) != c.changes {
				t.Errorf("unverified: %v, changes: %v", s.unverified, s.changes)
			}
			if _, a := b.Admit(key, b.caches, late()); a.Wait != c.wait || a.Missing.Empty() != (c.wait == 0) {
				t.Errorf("admission: %+v", a)
			}
		})
	}
}

// No timer of a key outlasts the term.
func TestEndStopsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New[plan.Key, int, int]()
		key := plan.Key{Name: "a"}
		s, _ := k.Admit(key, freshness.Caches{}, time.Now())
		looks := 0
		s.LookAfter(time.Second, func() { looks++ })
		k.Release(key, s, 0)
		if k.Len() != 1 {
			t.Error("a key that is to be looked at again is forgotten")
		}
		k.End()
		time.Sleep(time.Minute)
		if looks > 0 {
			t.Error("it is looked at after the end")
		}
		s, _ = k.Admit(key, freshness.Caches{}, time.Now())
		if k.Release(key, s, 0); k.Len() != 0 {
			t.Error("a key of which there is nothing to say is kept")
		}
	})
}

func TestCooldown(t *testing.T) {
	for cost, want := range map[time.Duration]time.Duration{
		0:                      0,
		499 * time.Microsecond: 0,
		500 * time.Microsecond: 4 * time.Millisecond,
		time.Second:            100 * time.Millisecond,
	} {
		if got := cooldown(cost); got != want {
			t.Errorf("after %v: %v, want %v", cost, got, want)
		}
	}
	b, key := newBench(), plan.Key{Name: "a"}
	s, _ := b.Admit(key, b.caches, late())
	s.Barrier.WaitForVersion(podKind, "5")
	b.Release(key, s, time.Second)
	if _, a := b.Admit(key, b.caches, time.Now()); a.Wait <= 0 || a.Wait > 100*time.Millisecond || !a.Missing.Empty() || s.stale != 0 {
		t.Errorf("a key that cools down: %+v", a)
	}
}

// What somebody asks for of a key that cools down is not put off. Who asks for something new all the time shortens one cooldown by that,
// until one is kept.
func TestNewGenerationCutsACooldownShort(t *testing.T) {
	b, key, now := newBench(), plan.Key{Name: "a"}, late()
	b.NewGeneration(key) // nothing is known of it, and nothing kept
	if b.Len() != 0 {
		t.Fatalf("%d keys", b.Len())
	}
	b.Record(key, change{}) // so that there is a state
	admit := func(name string, waits time.Duration) {
		t.Helper()
		s, a := b.Admit(key, b.caches, now)
		if a.Wait != waits || a.Stale {
			t.Fatalf("%s: %+v, want %v", name, a, waits)
		}
		if waits == 0 {
			s.cooldown = now.Add(60 * time.Millisecond) // as Release does
		}
	}
	admit("the first time", 0)
	admit("a pod has changed", 60*time.Millisecond)
	b.NewGeneration(key)
	admit("it was changed", 0)
	admit("a pod has changed", 60*time.Millisecond)
	b.NewGeneration(key)
	admit("it was changed again", 60*time.Millisecond) // 60 of the 100 ms are taken
	now = now.Add(30 * time.Millisecond)
	admit("and it is again, when the rest is no more than what is left", 0)
	b.NewGeneration(key)
	now = now.Add(50 * time.Millisecond)
	admit("and again", 0)
	b.NewGeneration(key)
	now = now.Add(55 * time.Millisecond)
	admit("nothing is left", 5*time.Millisecond)
	now = now.Add(5 * time.Millisecond)
	admit("a cooldown is kept", 0)
	b.NewGeneration(key)
	admit("so the next may be cut short", 0)
}

// What a live list did not have, and the caches go on to show, is asked for anew after a while.
func TestStaleForLongIsVerifiedAnew(t *testing.T) {
	b, key := newBench(), plan.Key{Name: "a"}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
	if err := b.cache.Add(gone); err != nil {
		t.Fatal(err)
	}
	s, _ := b.Admit(key, b.caches, late())
	s.Barrier.WaitForAbsence(podKind, gone, labels.Everything())
	for i := range verifyAfter {
		if s.unverified {
			t.Fatalf("unverified after %d attempts", i)
		}
		if _, a := b.Admit(key, b.caches, late()); a.Missing != podKind {
			t.Fatalf("attempt %d: %+v", i, a)
		}
	}
	if _, a := b.Admit(key, b.caches, late()); !s.unverified || a.Wait != 0 {
		t.Errorf("after %d attempts: %+v, unverified %v", verifyAfter, a, s.unverified)
	}
}

// expected is what the states of keys have to agree with.
type expected struct {
	held       bool // a worker has the key
	state      *State[int, change]
	unverified bool
	failures   int
	report     bool
	moving     bool
	owner      types.UID
	inProgress bool
	group      types.UID
	memory     int // 0 for none
	changes    int
	told       int // of the changes, when Observe was called
	latest     int // the change of the object of which only the latest is kept: 0 for none, 1 for one that is not told, 2 for one that is
	version    int // that the cache must reach; 0 for none
	stale      bool
	cooldown   bool
}

func (e *expected) idle() bool {
	return !e.unverified && e.failures == 0 && !e.report && !e.inProgress && e.memory == 0 && e.changes == 0 && e.version == 0 &&
		!e.stale && !e.cooldown
}

// Whatever happens to the keys: the counters, the groups and the size agree with a plain model, and a state that says nothing
// is dropped when its worker is done.
func TestKeyStatesAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, model := newBench(), map[plan.Key]*expected{}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			key := plan.Key{Name: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")}
			if model[key] == nil {
				model[key] = &expected{owner: types.UID(rapid.SampledFrom([]string{"", "web", "shop"}).Draw(t, "owner"))}
			}
			step(t, b, model[key], key)
			b.agrees(t, model)
		}
	})
}

// step lets one thing happen to a key: to one that no worker has what event handlers do, or that a worker takes it; to one
// that a worker has anything.
func step(t *rapid.T, b *bench, e *expected, key plan.Key) {
	events := []string{"unverify", "record", "record latest", "catch up"}
	if e.held {
		events = append(events, "write", "verified", "unanswered", "remember", "commit", "report", "reported", "progressing",
			"fail", "wrote", "unchanged", "forget", "release", "release", "expensive")
	} else {
		events = append(events, "admit", "admit", "admit", "admit early")
	}
	what := rapid.SampledFrom(events).Draw(t, "event")
	handlerStep(b, e, key, what)
	workerStep(b, e, what)
	reportStep(b, e, what)
	switch what {
	case "admit", "admit early":
		admitStep(t, b, e, key, what == "admit early")
	case "release", "expensive":
		cost := time.Duration(0)
		if e.cooldown = what == "expensive"; e.cooldown {
			cost = time.Second
		}
		b.Release(key, e.state, cost)
		e.held, e.state = false, nil
	}
}

func handlerStep(b *bench, e *expected, key plan.Key, what string) {
	switch what {
	case "unverify":
		b.Unverify(key)
		e.unverified = true
	case "record":
		b.Record(key, change{})
		e.changes++
	case "record latest":
		b.RecordLatest(key, Object{Kind: podKind, Key: key}, change{})
		switch e.latest {
		case 0:
			e.changes++
		case 2:
			e.told--
		}
		e.latest = 1
	case "catch up":
		b.cache.version += 2
	}
}

func admitStep(t *rapid.T, b *bench, e *expected, key plan.Key, early_ bool) {
	now := late()
	if early_ {
		now = early()
	}
	s, a := b.Admit(key, b.caches, now)
	if early_ && e.cooldown {
		if a.Wait <= 0 || !a.Missing.Empty() {
			t.Fatalf("%s cools down: %+v", key, a)
		}
		return // the worker lets go of it at once
	}
	e.held, e.state = true, s
	e.stale = e.version > b.cache.version
	if !e.stale {
		e.version = 0
	}
	if e.stale != (a.Wait > 0) || e.stale == a.Missing.Empty() {
		t.Fatalf("%s stale: %v, admission: %+v", key, e.stale, a)
	}
	o := b.Observed(s)
	if e.latest == 1 {
		e.latest = 2
	}
	if e.told = len(o.Changes); e.told != e.changes || ptr.Deref(o.Memory, 0) != e.memory {
		t.Fatalf("%s is told of %d changes and %v, want %d and %d", key, e.told, o.Memory, e.changes, e.memory)
	}
}

func workerStep(b *bench, e *expected, what string) {
	switch what {
	case "write":
		e.version = max(e.version, b.cache.version+1)
		e.state.Barrier.WaitForVersion(podKind, strconv.Itoa(e.version))
	case "verified":
		b.Verified(e.state)
		e.unverified = false
	case "unanswered":
		b.Unanswered(e.state)
		e.unverified = true
	case "remember":
		b.Commit(e.state, ptr.To(7), "")
		e.memory = 7
		e.committed()
	case "commit":
		b.Commit(e.state, nil, "")
		e.memory = 0
		e.committed()
	case "fail":
		if e.failures++; b.Failed(e.state, errors.New("no")) != e.failures {
			e.failures = -1 // which nothing agrees with
		}
	case "forget":
		b.Forget(e.state, true)
		e.committed()
		*e = expected{held: true, state: e.state, owner: e.owner, changes: e.changes, latest: e.latest}
	}
}

// committed is called when the changes that Observe was told of are no longer needed.
func (e *expected) committed() {
	e.changes, e.told = e.changes-e.told, 0
	if e.latest == 2 {
		e.latest = 0
	}
}

func reportStep(b *bench, e *expected, what string) {
	switch what {
	case "report":
		e.state.owner = e.owner
		b.setReport(e.state, debounced{since: time.Unix(100, 0)})
		if e.report = true; !e.inProgress {
			e.inProgress, e.group = true, e.owner
		}
	case "reported":
		b.setReport(e.state, debounced{})
		e.report = false
	case "progressing":
		e.state.owner = e.owner
		e.moving = !e.moving
		e.state.Progressing = e.moving
	case "wrote", "unchanged":
		b.Succeeded(e.state, what == "wrote", 0)
		if !e.report {
			e.failures = 0
		}
		if e.moving && !e.inProgress {
			e.inProgress, e.group = true, e.owner
		} else if what == "unchanged" && !e.report && !e.moving {
			e.inProgress = false
		}
	}
}

// agrees compares the states with the model.
func (b *bench) agrees(t *rapid.T, model map[plan.Key]*expected) {
	debounced, failing, size, groups := 0, 0, 0, map[types.UID]bool{}
	for key, e := range model {
		debounced += count(e.report)
		failing += count(e.failures != 0)
		size += count(e.held || !e.idle())
		if e.inProgress && e.group != "" {
			groups[e.group] = true
		}
		if got := b.Priority(key, queue.Changed, "").Level == queue.InProgress; got != e.inProgress {
			t.Fatalf("%s in progress: %v, want %v", key, got, e.inProgress)
		}
		if s := b.all[key]; s != nil && (s.unverified != e.unverified || s.failures != e.failures) {
			t.Fatalf("%s: %+v, want %+v", key, s, e)
		}
	}
	gotDebounced, gotFailing := b.Counts()
	got := fmt.Sprint(gotDebounced, " debounced, ", gotFailing, " failing, ", len(b.all), " states, ", len(b.groups), " groups")
	if want := fmt.Sprint(debounced, " debounced, ", failing, " failing, ", size, " states, ", len(groups), " groups"); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	for id := range groups {
		if b.groups[id] == nil {
			t.Fatalf("group %s is missing", id)
		}
	}
}

// A key that is queued and has a report that waits is one piece of work, not two.
func TestBacklogCountsAKeyOnce(t *testing.T) {
	k := New[plan.Key, int, change]()
	a, b, c := plan.Key{Name: "a"}, plan.Key{Name: "b"}, plan.Key{Name: "c"}
	k.setReport(k.get(a), debounced{since: time.Now()})
	for _, tt := range []struct {
		queued []plan.Key
		want   int
	}{{nil, 1}, {[]plan.Key{a}, 1}, {[]plan.Key{b, c}, 3}, {[]plan.Key{a, b}, 2}} {
		if got := k.backlog(tt.queued); got != tt.want {
			t.Errorf("queued %v: %d, want %d", tt.queued, got, tt.want)
		}
	}
}
