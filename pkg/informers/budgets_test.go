package informers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"
)

func budget(namespace, name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
	}
}

// Budgets and pods come, go and are relabelled; both lookups always find what a look at all objects finds (DIS-6).
func TestBudgetsAndPods(t *testing.T) {
	key, value := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "x", "y", "z"})
	pairs := rapid.MapOfN(key, value, 0, 3)
	expression := rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{
			Key: key.Draw(t, "key"),
			Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{"In", "In", "NotIn", "Exists", "DoesNotExist", "Perhaps"}).Draw(t,
				"operator"),
			Values: rapid.SliceOfN(value, 0, 3).Draw(t, "values"),
		}
	})
	selector := rapid.Custom(func(t *rapid.T) *metav1.LabelSelector {
		if rapid.IntRange(0, 9).Draw(t, "none") == 0 {
			return nil
		}
		return &metav1.LabelSelector{MatchLabels: pairs.Draw(t, "labels"),
			MatchExpressions: rapid.SliceOfN(expression, 0, 3).Draw(t, "expressions")}
	})
	selects := func(s *metav1.LabelSelector, l map[string]string) bool {
		parsed, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && parsed.Matches(labels.Set(l))
	}
	rapid.Check(t, func(t *rapid.T) {
		f := NewFactory(fake.NewClientset(), 0)
		budgets, pods := must(Budgets(f)), must(PodsByLabels(f))
		namespace, name := rapid.SampledFrom([]string{"shop", "bank"}), rapid.StringMatching("[a-e]")
		t.Repeat(map[string]func(*rapid.T){
			"put a budget": func(t *rapid.T) {
				must[any](nil,
					budgets.Informer().GetIndexer().Add(budget(namespace.Draw(t, "ns"), name.Draw(t, "name"),
						selector.Draw(t, "selector"))))
			},
			"put a pod": func(t *rapid.T) {
				must[any](nil,
					pods.Informer().GetIndexer().Add(labeledPod(namespace.Draw(t, "ns"), name.Draw(t, "name"), pairs.Draw(t, "labels"))))
			},
			"remove": func(t *rapid.T) {
				ns, n := namespace.Draw(t, "ns"), name.Draw(t, "name")
				must[any](nil, budgets.Informer().GetIndexer().Delete(budget(ns, n, nil)))
				must[any](nil, pods.Informer().GetIndexer().Delete(labeledPod(ns, n, nil)))
			},
			"look up": func(t *rapid.T) {
				ns, l := namespace.Draw(t, "ns"), pairs.Draw(t, "pairs")
				var wantBudgets []*policyv1.PodDisruptionBudget
				for _, b := range budgets.In(ns) {
					if selects(b.Spec.Selector, l) {
						wantBudgets = append(wantBudgets, b)
					}
				}
				if got, want := names(budgets.Selecting(ns, l)), names(wantBudgets); got != want {
					t.Fatalf("budgets for %v: %s, want %s", l, got, want)
				}
				s := selector.Draw(t, "selector")
				var wantPods []*corev1.Pod
				for _, p := range pods.In(ns) {
					if selects(s, p.Labels) {
						wantPods = append(wantPods, p)
					}
				}
				found, looked, err := pods.SelectedBy(ns, s)
				if _, wrong := metav1.LabelSelectorAsSelector(s); (wrong == nil) != (err == nil) {
					t.Fatalf("%v, want %v", err, wrong)
				}
				if got, want := names(found), names(wantPods); got != want || looked < len(found) {
					t.Fatalf("pods for %v: %s of %d, want %s", s, got, looked, want)
				}
			},
		})
	})
}

// BenchmarkBudgetsOfAPod is the way from a pod to its budgets, in a namespace with 500 of them.
func BenchmarkBudgetsOfAPod(b *testing.B) {
	for _, form := range []string{"labels", "in", "notin"} {
		b.Run(form, func(b *testing.B) {
			budgets := must(Budgets(NewFactory(fake.NewClientset(), 0)))
			for i := range 500 {
				app := fmt.Sprint("a", i)
				s := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
				switch form {
				case "in":
					s = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In",
						Values: []string{app, app + "x"}}}}
				case "notin":
					s = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "NotIn",
						Values: []string{"a7"}}}}
				}
				must[any](nil, budgets.Informer().GetIndexer().Add(budget("shop", app, s)))
			}
			b.ReportAllocs()
			for b.Loop() {
				budgets.Selecting("shop", map[string]string{"app": "a7"})
			}
		})
	}
}
