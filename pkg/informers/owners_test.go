package informers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A handler does not parse the selectors of all in a namespace, which may be large.
func TestCostsOfOrphans(t *testing.T) {
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprint("v", i))
	}
	s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: values}}}
	all := slices.Repeat([]*appsv1.ReplicaSet{s}, 500)
	owners := Owners[*appsv1.ReplicaSet]{Kind: "ReplicaSet", In: func(string) []*appsv1.ReplicaSet { return all },
		Selector: func(s *appsv1.ReplicaSet) *metav1.LabelSelector { return s.Spec.Selector }}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"}}}
	var keys []plan.Key
	if took := costs.CPU(func() { keys = owners.Enqueues(nil, p) }); costs.Exceeds(took, 50*time.Millisecond) || len(keys) != 500 {
		t.Errorf("%d keys in %v", len(keys), took)
	}
}

func TestOwnersEnqueues(t *testing.T) {
	set := func(name string, uid types.UID, app string) *appsv1.ReplicaSet {
		s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		return s
	}
	a, b, all := set("a", "1", "web"), set("b", "2", "db"), set("all", "3", "x")
	all.Spec.Selector = &metav1.LabelSelector{}
	sets := map[string]*appsv1.ReplicaSet{"a": a, "b": b, "all": all}
	owners := Owners[*appsv1.ReplicaSet]{
		Kind:     "ReplicaSet",
		Get:      func(_, name string) *appsv1.ReplicaSet { return sets[name] },
		In:       func(string) []*appsv1.ReplicaSet { return []*appsv1.ReplicaSet{a, b, all} },
		Selector: func(s *appsv1.ReplicaSet) *metav1.LabelSelector { return s.Spec.Selector },
	}
	pod := func(app, owner, kind string, uid types.UID) plan.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		if app != "" {
			p.Labels = map[string]string{"app": app}
		}
		if owner != "" {
			controller := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: uid, Controller: &controller}}
		}
		return p
	}
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          string
	}{
		{"RS-2 a pod of a set", nil, pod("web", "a", "ReplicaSet", "1"), "[ns/a]"},
		{"RS-2 of a namesake with another uid", nil, pod("web", "a", "ReplicaSet", "9"), "[]"},
		{"RS-2 of another kind", nil, pod("web", "a", "Job", "1"), "[]"},
		{"RS-2 of a set that is not there", nil, pod("web", "z", "ReplicaSet", "1"), "[]"},
		{"RS-3 a new orphan wakes who matches; an empty selector does not", nil, pod("web", "", "", ""), "[ns/a]"},
		{"RS-3 a relabelled orphan", pod("x", "", "", ""), pod("db", "", "", ""), "[ns/b]"},
		{"RS-3 an orphan whose labels stay", pod("db", "", "", ""), pod("db", "", "", ""), "[]"},
		{"RS-3 an orphan without labels", nil, pod("", "", "", ""), "[]"},
		{"RS-3 a deleted orphan", pod("web", "", "", ""), nil, "[]"},
		{"RS-4 from one set to another", pod("web", "a", "ReplicaSet", "1"), pod("web", "b", "ReplicaSet", "2"), "[ns/a ns/b]"},
		{"RS-4 let go", pod("db", "a", "ReplicaSet", "1"), pod("db", "", "", ""), "[ns/a ns/b]"},
		{"RS-4 an update in place wakes once", pod("web", "a", "ReplicaSet", "1"), pod("web", "a", "ReplicaSet", "1"), "[ns/a]"},
		{"RS-1 a deleted pod", pod("web", "a", "ReplicaSet", "1"), nil, "[ns/a]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(owners.Enqueues(c.before, c.after)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestItself(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, got := range [][]plan.Key{Itself(nil, p), Itself(p, nil), Itself(p, p)} {
		if len(got) != 1 || got[0].String() != "ns/p" {
			t.Errorf("%v", got)
		}
	}
}
