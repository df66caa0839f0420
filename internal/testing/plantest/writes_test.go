package plantest

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// failures counts what fails.
type failures struct{ n int }

func (f *failures) Helper()               {}
func (f *failures) Fatal(...any)          { f.n++ }
func (f *failures) Errorf(string, ...any) { f.n++ }

func TestSame(t *testing.T) {
	node := func(edits ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7"},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}, {Key: "b"}}}}
		for _, edit := range edits {
			edit(n)
		}
		return n
	}
	tainted := func(keys ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = nil
			for _, key := range keys {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key})
			}
		}
	}
	fat := func(n *corev1.Node) { n.Spec.PodCIDR, n.Annotations = "10.0.0.0/24", map[string]string{"a": "b"} }
	other := func(n *corev1.Node) { n.UID = "v" }
	steps := func(steps ...plan.Step) plan.Plan { return plan.Plan{Steps: steps} }
	change := plan.Change{Old: node(), New: node(tainted("a", "b", "c"))}
	for _, c := range []struct {
		name      string
		want, got plan.Plan
		same      bool
	}{
		{"nothing", plan.Plan{}, plan.Plan{}, true},
		{"another reason", plan.Plan{Why: "a"}, plan.Plan{Why: "b"}, false},
		{"another time", plan.Plan{Requeue: time.Second}, plan.Plan{}, false},
		{"the same change of an object of which a cache keeps less",
			steps(plan.Change{Old: node(fat), New: node(fat, tainted("a", "b", "c"))}), steps(change), true},
		{"of a list that a cache keeps in part",
			steps(plan.Change{Old: node(tainted("a", "b", "x")), New: node(tainted("a", "b", "x", "c"))}), steps(change), true},
		{"of a list that was empty", steps(plan.Change{Old: node(tainted()), New: node(tainted("c"))}), steps(change), true},
		{"another item", steps(plan.Change{Old: node(), New: node(tainted("a", "b", "d"))}), steps(change), false},
		{"an item too few", steps(plan.Change{Old: node(), New: node(tainted("a", "c"))}), steps(change), false},
		{"another order", steps(plan.Change{Old: node(), New: node(tainted("b", "a"))}), steps(plan.Change{Old: node(), New: node()}),
			false},
		{"another field besides", steps(plan.Change{Old: node(), New: node(tainted("a", "b", "c"), fat)}), steps(change), false},
		{"of another object", steps(plan.Change{Old: node(other), New: node(other, tainted("a", "b", "c"))}), steps(change), false},
		{"of another subresource", steps(plan.Change{Old: node(), New: change.New, Subresource: plan.Status}), steps(change), false},
		{"with a precondition", steps(plan.Change{Old: node(), New: change.New, CheckVersion: true}), steps(change), false},
		{"one that is applied, from nothing", steps(plan.Change{New: change.New, Apply: &plan.Apply{FieldManager: "a"}}),
			steps(plan.Change{New: change.New, Apply: &plan.Apply{FieldManager: "b"}}), false},
		{"the same in a sequence of its own", steps(plan.Each{Sequences: [][]plan.Step{{change}}}), steps(change), false},
		{"two sequences and one", steps(plan.Each{Sequences: [][]plan.Step{{change}, {change}}}),
			steps(plan.Each{Sequences: [][]plan.Step{{change, change}}}), false},
		{"another creation", steps(plan.Create{Object: node()}), steps(plan.Create{Object: node(fat)}), false},
		{"another number", steps(plan.Create{Object: node(), Count: 2}), steps(plan.Create{Object: node()}), false},
		{"one of several creations", steps(plan.CreateAll{Objects: []plan.Object{node(), node(fat)}}),
			steps(plan.CreateAll{Objects: []plan.Object{node(), node()}}), false},
		{"another deletion", steps(plan.Delete{Objects: []plan.Object{node()}}), steps(plan.Delete{Objects: []plan.Object{node(other)}}),
			false},
		{"a deletion at once", steps(plan.Delete{Objects: []plan.Object{node()}}),
			steps(plan.Delete{Objects: []plan.Object{node()}, Grace: ptr.To[int64](0)}), false},
		{"all of another namespace", steps(plan.DeleteCollection{Namespace: "a"}), steps(plan.DeleteCollection{Namespace: "b"}), false},
		{"another event", steps(plan.RecordEvent{Object: node(), Event: plan.Event{Reason: "A"}}),
			steps(plan.RecordEvent{Object: node(), Event: plan.Event{Reason: "B"}}), false},
		{"the same event", steps(plan.RecordEvent{Object: node(), Event: plan.Event{Reason: "A"}}),
			steps(plan.RecordEvent{Object: node(fat), Event: plan.Event{Reason: "A"}}), true},
	} {
		f := &failures{}
		if Same(f, c.want, c.got); (f.n == 0) != c.same {
			t.Errorf("%s: the same: %t\n%q\n%q", c.name, f.n == 0, Writes(c.want), Writes(c.got))
		}
	}
}

// names keeps the names of nodes.
type names struct{ err error }

func (k names) Project(o runtime.Object) (runtime.Object, error) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.(*corev1.Node).Name}}, k.err
}

func TestKept(t *testing.T) {
	f := &failures{}
	n := Kept(f, names{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}})
	if n.Name != "n" || n.UID != "" || Kept[*corev1.Node](f, names{}, nil) != nil || f.n != 0 {
		t.Errorf("%+v, %d failures", n, f.n)
	}
	if Kept(f, names{fmt.Errorf("no")}, n); f.n != 1 {
		t.Error("what cannot be projected is no failure")
	}
}
