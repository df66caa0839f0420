package cluster

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
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// names are the names that there are; all of them have to follow when their number gets even or odd.
type names = sets.Set[string]

func next(n names, before, after plan.Object) names {
	if after == nil {
		return n.Clone().Delete(before.GetName())
	}
	return n.Clone().Insert(after.GetName())
}

func node(i int) plan.Object {
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

// run runs a value of so many nodes at first, and returns what was enqueued.
func run(t *testing.T, nodes int, test func(v *Value[names], events reconcile.Watch, enqueued func() int)) {
	synctest.Test(t, func(t *testing.T) {
		first := sets.New[string]()
		for i := range nodes {
			first.Insert(node(i).GetName())
		}
		v := New(Options[names]{
			First: func() names { return first }, Next: next, Keys: sorted, Portion: 10, Pause: time.Second,
			Concerns: func(was, is names) bool { return was.Len()%2 != is.Len()%2 },
		})
		events := v.Follow(reconcile.Watch{Enqueues: func(_, after plan.Object) []plan.Key { return []plan.Key{{Name: "itself"}} }})
		events.Enqueues(nil, node(0))
		if _, known := v.Get(); known {
			t.Error("the value is known before the controller works")
		}
		var mu sync.Mutex
		all := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); v.Source(ctx, func(plan.Key) { mu.Lock(); defer mu.Unlock(); all++ }) }()
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
	run(t, 25, func(v *Value[names], events reconcile.Watch, enqueued func() int) {
		if n := enqueued(); n != 10 {
			t.Errorf("%d at once", n)
		}
		time.Sleep(5 * time.Second)
		if n := enqueued(); n != 15 {
			t.Errorf("%d follow", n)
		}
		if keys := events.Enqueues(nil, node(3)); len(keys) != 1 { // it was counted
			t.Errorf("enqueues %v", keys)
		}
		if now, known := v.Get(); !known || now.Len() != 25 || enqueued() != 0 {
			t.Errorf("%d nodes", now.Len())
		}
		events.Enqueues(nil, node(25))
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
	run(t, 100, func(v *Value[names], events reconcile.Watch, enqueued func() int) {
		time.Sleep(1500 * time.Millisecond)
		if n := enqueued(); n != 20 {
			t.Errorf("%d at first", n)
		}
		events.Enqueues(node(0), nil)
		time.Sleep(20 * time.Second)
		if n := enqueued(); n != 99 {
			t.Errorf("%d follow", n)
		}
	})
}
