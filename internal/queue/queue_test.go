package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestStorage(t *testing.T) {
	key := func(name string) plan.Key { return plan.Key{Name: name} }
	newStorage := func() *storage[plan.Key] { return newStorage(namespaceOf) }
	push := func(l *storage[plan.Key], name string, at Level) {
		l.prioritize(key(name), Priority{Level: at})
		l.Push(key(name))
	}
	drain := func(l *storage[plan.Key]) string {
		var names []string
		for l.Len() > 0 {
			names = append(names, l.Pop().Name)
		}
		return strings.Join(names, " ")
	}
	t.Run("changes go before the background, what is in progress before both", func(t *testing.T) {
		l := newStorage()
		push(l, "b1", Background)
		push(l, "l1", Changed)
		push(l, "g1", InProgress)
		if got := drain(l); got != "g1 l1 b1" {
			t.Error(got)
		}
	})
	t.Run("of what is in progress the earliest goes first, whenever it was added", func(t *testing.T) {
		l := newStorage()
		for _, since := range []int64{3, 1, 4, 2} {
			k := key(fmt.Sprint("g", since))
			l.prioritize(k, Priority{Level: InProgress, Since: since})
			l.Push(k)
		}
		if got := drain(l); got != "g1 g2 g3 g4" {
			t.Error(got)
		}
	})
	t.Run("nothing is left of keys that were handed out", func(t *testing.T) {
		l := newStorage()
		push(l, "idle", Background)
		for i := range 10_000 {
			push(l, fmt.Sprint("b", i), Background)
			push(l, fmt.Sprint("l", i), Changed)
			l.Pop()
			l.Pop()
		}
		l.Pop()
		if n := len(l.queued) + len(l.wanted) + len(l.byName); n > 0 || l.turns.First() != nil {
			t.Errorf("%d things are left", n)
		}
	})
	t.Run("what is in progress in one namespace costs the new work of another one every second turn", func(t *testing.T) {
		for _, tenants := range []int{1, 50} {
			l, pops, left := newStorage(), 0, 100
			put := func(k plan.Key, p Priority) { l.prioritize(k, p); l.Push(k) }
			for tenant := range tenants {
				for i := range 500 {
					put(plan.Key{Namespace: fmt.Sprint("busy-", tenant), Name: fmt.Sprint(i)}, Priority{Level: InProgress, Since: 1})
				}
			}
			for i := range left {
				put(plan.Key{Namespace: "quiet", Name: fmt.Sprint(i)}, Priority{Level: Changed})
			}
			for ; left > 0; pops++ {
				if k := l.Pop(); k.Namespace == "quiet" {
					left--
				} else {
					put(k, Priority{Level: InProgress, Since: int64(pops + 2)})
				}
			}
			if fair := 100 * (tenants + 1); pops > fair {
				t.Errorf("%d busy tenants: %d turns, a fair share is %d", tenants, pops, fair)
			}
		}
	})
	t.Run("a key that is added again can only rise", func(t *testing.T) {
		l := newStorage()
		push(l, "b1", Background)
		push(l, "b2", Background)
		l.prioritize(key("b2"), Priority{Level: Changed})
		l.Touch(key("b2"))
		l.prioritize(key("b2"), Priority{Level: Background})
		l.Touch(key("b2"))
		if got := drain(l); got != "b2 b1" {
			t.Error(got)
		}
	})
	t.Run("the key that has waited longest gets every sixteenth turn", func(t *testing.T) {
		l := newStorage()
		push(l, "b1", Background)
		for i := range 20 {
			push(l, fmt.Sprint("l", i), Changed)
		}
		for i := range ageingInterval - 1 {
			if got := l.Pop().Name; got != fmt.Sprint("l", i) {
				t.Errorf("turn %d: %s", i, got)
			}
		}
		if got := l.Pop().Name; got != "b1" {
			t.Errorf("turn %d: %s", ageingInterval, got)
		}
	})
}

// Whatever is pushed, touched and popped: every key comes out once for each time it went in, and Len tells how many. No key waits for
// more than its share of the turns for the longest waiting.
func TestStorageLosesNothing(t *testing.T) {
	const namespaces = 3
	rapid.Check(t, func(t *rapid.T) {
		l, queued := newStorage(namespaceOf), map[plan.Key]int{} // how many turns each has waited for
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			key := plan.Key{Namespace: fmt.Sprint(rapid.IntRange(1, namespaces).Draw(t, "namespace")),
				Name: fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "key"))}
			u := Priority{
				Level: Level(rapid.IntRange(0, int(levelCount)-1).Draw(t, "level")), Since: rapid.Int64Range(0, 3).Draw(t, "since"),
				Owner: types.UID(rapid.SampledFrom([]string{"", "web", "shop"}).Draw(t, "owner")),
			}
			_, known := queued[key]
			switch {
			case rapid.Bool().Draw(t, "pop") && l.Len() > 0:
				got := l.Pop()
				if _, ok := queued[got]; !ok {
					t.Fatalf("%s was not queued", got)
				}
				delete(queued, got)
				for key := range queued {
					if queued[key]++; queued[key] > ageingInterval*namespaces*4 {
						t.Fatalf("%s has waited for %d turns", key, queued[key])
					}
				}
			case known:
				l.prioritize(key, u)
				l.Touch(key)
			default:
				l.prioritize(key, u)
				l.Push(key)
				queued[key] = 0
			}
			if l.Len() != len(queued) {
				t.Fatalf("Len %d, want %d", l.Len(), len(queued))
			}
		}
	})
}

// What waits longest is told of all namespaces, and is forgotten when it is handed out.
func TestLongestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStorage(namespaceOf)
		is := func(want time.Duration) {
			t.Helper()
			if got := l.longestWait(); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
		is(0)
		for _, namespace := range []string{"a", "b", "a"} {
			l.Push(plan.Key{Namespace: namespace, Name: fmt.Sprint(l.Len())})
			time.Sleep(time.Second)
		}
		is(3 * time.Second)
		l.prioritize(plan.Key{Namespace: "a", Name: "2"}, Priority{Level: InProgress})
		l.Touch(plan.Key{Namespace: "a", Name: "2"})
		is(3 * time.Second)
		l.Pop()
		l.Pop()
		l.Pop()
		is(0)
	})
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		name     string
		failures int
		err      error
		longest  time.Duration
	}{
		{"the first is short", 1, errors.New("no"), 5 * time.Millisecond},
		{"each doubles", 4, errors.New("no"), 40 * time.Millisecond},
		{"no longer than a minute", 1000, errors.New("no"), time.Minute},
		{"as long as the server asks for", 1, apierrors.NewTooManyRequests("later", 7), 7 * time.Second},
		{"no longer than a minute, whatever the server asks for", 1, apierrors.NewTooManyRequests("later", 3600), time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 100 {
				if got := Backoff(c.failures, c.err); got > c.longest || got < c.longest*9/10-1 {
					t.Fatalf("%v, want at most a tenth less than %v", got, c.longest)
				}
			}
		})
	}
}

func TestGroups(t *testing.T) {
	groups, first, second := Groups{}, time.Unix(100, 0), time.Unix(200, 0)
	a, b := groups.Join("web", first), groups.Join("web", second)
	if a != b || b.Priority() != (Priority{Level: InProgress, Since: first.UnixNano()}) {
		t.Errorf("keys of one group: %+v, %+v", a, b)
	}
	alone, other := groups.Join("", second), groups.Join("", second)
	if alone == other || len(groups) != 1 {
		t.Error("keys without a group have one in common")
	}
	groups.Leave(nil)
	groups.Leave(alone)
	groups.Leave(a)
	if groups["web"] == nil {
		t.Error("the group ended with the first of two keys")
	}
	if groups.Leave(b); len(groups) != 0 {
		t.Errorf("left: %v", groups)
	}
}

// Snapshot is for counting: each key at most once, and no more than asked for.
func TestSnapshot(t *testing.T) {
	q := New("test", namespaceOf)
	defer q.ShutDown()
	if got := q.Snapshot(3); len(got) != 0 {
		t.Errorf("%v of an empty queue", got)
	}
	for _, name := range []string{"a", "b", "b", "c"} {
		q.Add(plan.Key{Name: name})
	}
	for n, want := range []int{0, 1, 2, 3, 3} {
		got := q.Snapshot(n)
		if slices.SortFunc(got, func(a, b plan.Key) int { return strings.Compare(a.Name, b.Name) }); len(slices.Compact(got)) != want {
			t.Errorf("%d keys: got %v", n, got)
		}
	}
}

func namespaceOf(key plan.Key) string { return key.Namespace }
