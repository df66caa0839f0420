package reconcile

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilsets "k8s.io/apimachinery/pkg/util/sets"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// names are the names that there are; all of them have to follow when their number gets even or odd.
type names = utilsets.Set[string]

func follow(n names, before, after plan.Object) names {
	if after == nil {
		return n.Clone().Delete(before.GetName())
	}
	return n.Clone().Insert(after.GetName())
}

func numbered(i int) plan.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%02d", i)}}
}

func sorted(n names) iter.Seq[plan.Key] {
	return func(yield func(plan.Key) bool) {
		for _, name := range slices.Sorted(slices.Values(n.UnsortedList())) {
			if !yield(plan.Key{Name: name}) {
				return
			}
		}
	}
}

// during begins a term of so many nodes at first, and has the test know what was enqueued.
func during(t *testing.T, nodes int, test func(v *Term[names], events Watch, enqueued func() int)) {
	synctest.Test(t, func(t *testing.T) {
		first := utilsets.New[string]()
		for i := range nodes {
			first.Insert(numbered(i).GetName())
		}
		v := NewTerm(TermOptions[names]{
			Begin: func() names { return first }, Next: follow, Keys: sorted, Portion: 10, Pause: time.Second,
			Concerns: func(was, is names) bool { return was.Len()%2 != is.Len()%2 },
		})
		events := v.Follow(Watch{Enqueues: func(_, after plan.Object) []plan.Key { return []plan.Key{{Name: "itself"}} }})
		events.Enqueues(nil, numbered(0))
		if _, known := v.Get(); known {
			t.Error("the value is known before the controller works")
		}
		var mu sync.Mutex
		all := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			v.Run(ctx, func(plan.Key) { mu.Lock(); defer mu.Unlock(); all++ }, func() { <-ctx.Done() })
		}()
		synctest.Wait()
		test(v, events, func() (n int) { synctest.Wait(); mu.Lock(); defer mu.Unlock(); n, all = all, 0; return n })
		cancel()
		<-done
		if _, known := v.Get(); known {
			t.Error("the value outlasts the term")
		}
	})
}

// Keys follow at first and after a change that concerns them, a few at a time; the value is there before an event enqueues.
func TestKeysFollow(t *testing.T) {
	during(t, 25, func(v *Term[names], events Watch, enqueued func() int) {
		if n := enqueued(); n != 10 {
			t.Errorf("%d at once", n)
		}
		time.Sleep(5 * time.Second)
		if n := enqueued(); n != 15 {
			t.Errorf("%d follow", n)
		}
		if keys := events.Enqueues(nil, numbered(3)); len(keys) != 1 { // it was counted
			t.Errorf("enqueues %v", keys)
		}
		if now, known := v.Get(); !known || now.Len() != 25 || enqueued() != 0 {
			t.Errorf("%d nodes", now.Len())
		}
		events.Enqueues(nil, numbered(25))
		if now, _ := v.Get(); now.Len() != 26 {
			t.Errorf("%d nodes", now.Len())
		}
		time.Sleep(5 * time.Second)
		if n := enqueued(); n != 26 {
			t.Errorf("%d follow a change", n)
		}
	})
}

// A change while keys are enqueued begins anew, with the new value.
func TestAChangeBeginsAnew(t *testing.T) {
	during(t, 100, func(v *Term[names], events Watch, enqueued func() int) {
		time.Sleep(1500 * time.Millisecond)
		if n := enqueued(); n != 20 {
			t.Errorf("%d at first", n)
		}
		events.Enqueues(numbered(0), nil)
		time.Sleep(20 * time.Second)
		if n := enqueued(); n != 99 {
			t.Errorf("%d follow", n)
		}
	})
}

// What expires does so at its time, also after a change, and enqueues what that concerns. Nothing does after the end of the term.
func TestExpires(t *testing.T) {
	type value struct{ until, over time.Time }
	synctest.Test(t, func(t *testing.T) {
		term := NewTerm(TermOptions[value]{
			Begin: func() value { return value{} },
			Expire: func(now time.Time, v value) (value, time.Duration) {
				if v.until.IsZero() {
					return v, 0
				}
				if left := v.until.Sub(now); left > 0 {
					return v, left
				}
				return value{over: now}, 0
			},
			Concerns: func(was, is value) bool { return was.over != is.over },
			Keys:     func(value) iter.Seq[plan.Key] { return slices.Values([]plan.Key{{Name: "a"}}) },
		})
		last := func(d time.Duration) {
			term.Update(func(v value) value { v.until = time.Now().Add(d); return v })
		}
		last(time.Second) // the term has not begun
		var enqueued []time.Time
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			term.Run(ctx, func(plan.Key) { enqueued = append(enqueued, time.Now()) }, func() { <-ctx.Done() })
		}()
		synctest.Wait()
		last(3 * time.Second)
		time.Sleep(time.Second)
		last(5 * time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if over := began.Add(6 * time.Second); len(enqueued) != 2 || !enqueued[1].Equal(over) {
			t.Errorf("enqueued at %v, not at %v", enqueued, over)
		}
		last(time.Second)
		synctest.Wait()
		cancel()
		<-done
		time.Sleep(time.Minute)
		if len(enqueued) != 2 {
			t.Errorf("enqueued at %v", enqueued)
		}
		if v, known := term.Get(); known || v != (value{}) {
			t.Errorf("the term is over: %v", v)
		}
	})
}

// Who is about to write takes what it writes before, and who comes second writes nothing until it has observed that.
func TestWhoComesSecondWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		term := NewTerm(TermOptions[string]{})
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Term = term
			c.Planned = func(s toy, _ struct{}) error {
				err := error(plan.ErrStale)
				term.Update(func(holder string) string {
					if holder == "" || holder == s.set.Name {
						holder, err = s.set.Name, nil
					}
					return holder
				})
				return err
			}
		}
		defer w.keepCaches()()
		w.put("a", 1)
		w.settle()
		w.put("b", 1)
		w.settle()
		w.wantPods(1)
		term.Update(func(string) string { return "" })
		time.Sleep(time.Minute)
		w.wantPods(2)
		w.stop()
		if _, known := term.Get(); known {
			t.Error("the term is not over")
		}
		w.nextTerm()
		w.settle()
		if holder, known := term.Get(); !known || holder == "" {
			t.Errorf("the next term: %q, %t", holder, known)
		}
	})
}
