package garbagecollector

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// GC-15: which of the objects go on that wait for lists, after one of their namespace.
func TestPlanUnlisted(t *testing.T) {
	a, b := &node{uid: "a"}, &node{uid: "b"}
	for _, c := range []struct {
		name             string
		s                unlistedSnapshot
		cleared, waiting int
		again            time.Duration
	}{
		{"none is left", unlistedSnapshot{known: true}, 0, 0, 0},
		{"nothing depends on them", unlistedSnapshot{asking: []*node{a, b}, known: true}, 2, 0, askAfter},
		{"something depends on one", unlistedSnapshot{asking: []*node{a, b}, known: true, owners: sets.New[types.UID]("b", "c")}, 1, 1,
			askAgain},
		{"that is not known", unlistedSnapshot{asking: []*node{a, b}}, 0, 2, askAgain},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, p := planUnlisted(now, c.s)
			if len(d.cleared) != c.cleared || len(d.waiting) != c.waiting || p.Requeue != c.again || !p.Empty() {
				t.Errorf("decided %+v, planned %+v", d, p)
			}
		})
	}
}

// An object that comes when none had been left is asked for: its namespace is not forgotten.
func TestLateObjectsAreAskedFor(t *testing.T) {
	run(t, func(b *bench) {
		b.mu.Lock()
		b.term.graph.listing.Insert(schema.GroupVersionResource{Resource: "widgets"})
		b.term.asking["shop"] = sets.New(&node{namespace: "shop"})
		b.mu.Unlock()
		if err := b.commitUnlisted(unlistedSnapshot{namespace: "shop"}, unlistedDecision{}); err == nil {
			t.Error("it is forgotten")
		}
		b.term.asking["shop"].Delete(b.term.asking["shop"].UnsortedList()...)
		if err := b.commitUnlisted(unlistedSnapshot{namespace: "shop"}, unlistedDecision{}); err != nil || b.term.asking["shop"] != nil {
			t.Errorf("%v, %v", b.term.asking, err)
		}
	})
}
