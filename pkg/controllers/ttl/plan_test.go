package ttl

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/termtest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const key = "node.alpha.kubernetes.io/ttl" // TTL-1

// node is one with the annotation, and one of somebody else.
func node(name, value string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", Annotations: map[string]string{key: value, "team": "a"}}}
}

// bare is a node without annotations.
func bare(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1"}}
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		snapshot
		want string // what the annotation is changed to; empty for no change
	}{
		{"TTL-1 a node of a small cluster gets a zero", snapshot{bare("a"), 1, 0}, "0"},
		{"TTL-1 a node of a large cluster gets the seconds of its class", snapshot{bare("a"), 5000, 4}, "300"},
		{"TTL-10 an annotation that is right stays", snapshot{node("a", "15"), 101, 1}, ""},
		{"TTL-10 another spelling of the number stays", snapshot{node("a", "00"), 1, 0}, ""},
		{"TTL-10 another number is changed", snapshot{node("a", "30"), 101, 1}, "15"},
		{"TTL-10 what is no integer is changed", snapshot{node("a", "15s"), 101, 1}, "15"},
		{"TTL-10 an empty annotation is changed", snapshot{node("a", ""), 1, 0}, "0"},
		{"TTL-10 a number that is too long is changed", snapshot{node("a", "99999999999999999999"), 1, 0}, "0"},
		{"TTL-14 nothing is written before the nodes are counted", snapshot{bare("a"), 0, unknown}, ""},
		{"TTL-11 a node that is gone gets nothing", snapshot{Nodes: 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planAnnotation(epoch, c.snapshot)
			if p.Why == "" {
				t.Error("the plan does not say why")
			}
			if c.want == "" {
				if !p.Empty() {
					t.Errorf("it writes: %s", p.Why)
				}
				return
			}
			want := bare("a")
			want.Annotations = map[string]string{key: c.want}
			if c.Node.Annotations != nil {
				want.Annotations["team"] = "a"
			}
			change := p.Steps[0].(plan.Change)
			if diff := cmp.Diff(plan.Object(want), change.New); diff != "" || change.Old != plan.Object(c.Node) {
				t.Errorf("%s: %s", p.Why, diff)
			}
		})
	}
}

// The patch sets the annotation and nothing else, on this very node (TTL-10).
func TestPatch(t *testing.T) {
	change := planAnnotation(epoch, snapshot{node("a", "x"), 101, 1}).Steps[0].(plan.Change)
	patch, err := client.MappingFor[*corev1.Node]().Difference(change.Old, change.New, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(patch.Data), `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"15"},"uid":"u-1"}}`; got != want {
		t.Errorf("the patch is %s", got)
	}
}

// The classes and their limits, which are inclusive.
func TestNextClass(t *testing.T) {
	for _, c := range []struct{ id, before, nodes, want int }{
		{3, 0, 0, 0}, {3, 0, 100, 0}, {8, 0, 101, 1}, // TTL-3, TTL-8
		{4, 1, 90, 1}, {8, 1, 89, 0}, {4, 1, 500, 1}, {4, 1, 501, 2}, // TTL-4
		{5, 2, 450, 2}, {5, 2, 449, 1}, {5, 2, 1000, 2}, {5, 2, 1001, 3}, // TTL-5
		{6, 3, 900, 3}, {6, 3, 899, 2}, {6, 3, 2000, 3}, {6, 3, 2001, 4}, // TTL-6
		{7, 4, 1800, 4}, {7, 4, 1799, 3}, {7, 4, 100_000, 4}, // TTL-7
		{8, 0, 5000, 4}, {8, 4, 0, 0}, // many events at once
		{14, unknown, 5000, unknown},
	} {
		if got := nextClass(c.before, c.nodes); got != c.want {
			t.Errorf("TTL-%d: a cluster of class %d that has %d nodes is of class %d, not %d", c.id, c.before, c.nodes, got, c.want)
		}
	}
	for i, want := range []int{0, 15, 30, 60, 300} { // TTL-3..7
		if got := classes()[i].seconds; got != want {
			t.Errorf("class %d caches for %ds, not %ds", i, got, want)
		}
	}
}

// After a restart the class is taken from the nodes, where the number of nodes leaves the choice (TTL-15).
func TestFirstClass(t *testing.T) {
	for _, c := range []struct {
		name      string
		nodes     int
		annotated [steps]int
		want      int
	}{
		{"TTL-2 no nodes", 0, [steps]int{}, 0},
		{"TTL-2 new nodes", 95, [steps]int{}, 0},
		{"TTL-2 more new nodes", 1900, [steps]int{}, 3},
		{"TTL-15 nodes of before that cache for 15 s", 95, [steps]int{0, 95, 0, 0, 0}, 1},
		{"TTL-15 nodes of before that do not cache", 95, [steps]int{95, 0, 0, 0, 0}, 0},
		{"TTL-15 most of the nodes count", 480, [steps]int{0, 230, 250, 0, 0}, 2},
		{"TTL-15 some nodes are late", 480, [steps]int{0, 250, 230, 0, 0}, 1},
		{"TTL-14 only one class fits", 101, [steps]int{101, 0, 0, 0, 0}, 1},
		{"TTL-14 a large cluster", 5000, [steps]int{}, 4},
	} {
		if got := firstClass(c.nodes, c.annotated); got != c.want {
			t.Errorf("%s: class %d", c.name, got)
		}
	}
}

// Names of nodes are enqueued when there is something to do (TTL-9, TTL-17).
func TestEnqueues(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after plan.Object
		class         int
		want          int
	}{
		{"TTL-9 a new node", nil, bare("a"), 0, 1},
		{"TTL-17 a new node with the right annotation", nil, node("a", "0"), 0, 0},
		{"TTL-12 an annotation that was changed", node("a", "0"), node("a", "7"), 0, 1},
		{"TTL-12 an annotation that was taken off", node("a", "0"), bare("a"), 0, 1},
		{"TTL-17 a change of something else", node("a", "0"), node("a", "0"), 0, 0},
		{"TTL-9 a resync of a node that is late", node("a", "0"), node("a", "0"), 1, 1},
		{"TTL-14 a node before the nodes are counted", nil, bare("a"), unknown, 0},
		{"a node that is gone, so that it is forgotten", node("a", "0"), nil, 0, 1},
		{"what is no node", nil, &corev1.Pod{}, 0, 0},
	} {
		k := &caches{size: sized(t, size{Class: c.class})}
		keys := k.enqueuedByNode(c.before, c.after)
		if len(keys) != c.want || c.want == 1 && keys[0] != (plan.Key{Name: "a"}) {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}

// sized returns a size that is known, or unknown if its class is, until the test ends.
func sized(t testing.TB, s size) *reconcile.Term[size] {
	term := reconcile.NewTerm(reconcile.TermOptions[size]{Begin: func() size { return s }, Next: size.next})
	if s.Class != unknown {
		termtest.Begin(t, term)
	}
	return term
}

// Each node counts once, whatever the order of the list and the events (TTL-2, TTL-8). No size changes that was there before.
func TestSize(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("n-", i))
	}
	first := firstSize(names, [steps]int{})
	s := first
	check := func(nodes, class int) {
		t.Helper()
		if s.Nodes != nodes || s.Class != class {
			t.Errorf("%d nodes, class %d, want %d, %d", s.Nodes, s.Class, nodes, class)
		}
	}
	check(100, 0)
	s = s.next(nil, bare("n-7")) // an event that the list knew
	check(100, 0)
	s = s.next(nil, bare("n-100"))
	check(101, 1)
	for i := range 11 {
		s = s.next(bare(names[i]), nil)
	}
	check(90, 1)
	s = s.next(bare(names[11]), nil).next(bare(names[11]), nil)
	check(89, 0)
	if s = first.next(bare("n-0"), bare("n-0")); s.Nodes != 100 {
		t.Errorf("the first size has %d nodes now", s.Nodes)
	}
	if s := (size{Class: unknown}).next(nil, bare("a")); s.Class != unknown {
		t.Errorf("class %d of nodes that were not listed", s.Class)
	}
}
