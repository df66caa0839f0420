package ttl

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// draw is any snapshot.
func draw(t *rapid.T) snapshot {
	s := snapshot{Nodes: rapid.IntRange(0, 10_000).Draw(t, "nodes"), Class: rapid.IntRange(unknown, steps-1).Draw(t, "class")}
	if rapid.Bool().Draw(t, "there") {
		s.Node = &corev1.Node{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(s.Node)
		if rapid.Bool().Draw(t, "annotated") {
			s.Node.Annotations = map[string]string{key: rapid.SampledFrom([]string{"", "0", "15", "300", "-1", "x", "015", "+15"}).Draw(t,
				"value"), "team": "a"}
		}
	}
	return s
}

// Whatever the node is, planning does not change it, writes nothing but the annotation, and is done after one write.
func TestPlanIsDoneAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		observed := s.Node.DeepCopy()
		p := planAnnotation(epoch, s)
		if diff := cmp.Diff(observed, s.Node); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
		if p.Empty() {
			return
		}
		after := p.Steps[0].(plan.Change).New.(*corev1.Node)
		s.Node = after
		if again := planAnnotation(epoch, s); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
		rest := after.DeepCopy()
		delete(rest.Annotations, key)
		delete(observed.Annotations, key)
		if len(rest.Annotations) == 0 {
			rest.Annotations = observed.Annotations
		}
		if diff := cmp.Diff(observed, rest); diff != "" {
			t.Errorf("it writes something else: %s", diff)
		}
	})
}

// The class always fits the number of nodes, and is left only when it no longer does. To follow each event leads to the same class as to
// follow several that go one way at once.
func TestClassesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(0, 3000).Draw(t, "nodes")
		class := firstClass(nodes, [steps]int{})
		for range rapid.IntRange(1, 10).Draw(t, "moves") {
			to := max(0, nodes+rapid.IntRange(-1500, 1500).Draw(t, "by"))
			stepwise := class
			for n := nodes; n != to; {
				if n < to {
					n++
				} else {
					n--
				}
				next := nextClass(stepwise, n)
				if d := next - stepwise; d*d > 1 || classes()[stepwise].fits(n) && d != 0 {
					t.Fatalf("with %d nodes, class %d follows class %d", n, next, stepwise)
				}
				stepwise = next
			}
			if class, nodes = nextClass(class, to), to; class != stepwise || !classes()[class].fits(nodes) {
				t.Fatalf("with %d nodes: class %d at once, %d step by step", nodes, class, stepwise)
			}
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if s.Node == nil {
			return
		}
		p := planAnnotation(epoch, s)
		o, err := kept.Project(s.Node)
		if err != nil {
			t.Fatal(err)
		}
		s.Node = o.(*corev1.Node)
		if again := planAnnotation(epoch, s); again.Why != p.Why {
			t.Errorf("%s, and with what is cached: %s", p.Why, again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planAnnotation(epoch, s)
		if again := planAnnotation(epoch, plantest.Restored(t, s)); again.Why != p.Why {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
	})
}
