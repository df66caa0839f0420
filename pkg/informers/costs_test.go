package informers

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
)

// manyLabels returns as many labels as fit into an object, none of which another call has.
func manyLabels(version int) map[string]string {
	all := map[string]string{"app": "web"}
	for i := range 4000 {
		all[fmt.Sprintf("v%d-%d", version, i)] = "x"
	}
	return all
}

// What a selector has cost is given back with its object.
func TestSelectorsAreForgotten(t *testing.T) {
	services, budgets := must(Services(NewFactory(fake.NewClientset(), 0))), must(Budgets(NewFactory(fake.NewClientset(), 0)))
	pod := map[string]string{"app": "web"}
	grown := costs.Heap(func() {
		for i := range 100 {
			all := manyLabels(i)
			s, b := service("shop", "s", all), budget("shop", "b", &metav1.LabelSelector{MatchLabels: all})
			must[any](nil, services.Informer().GetIndexer().Update(s))
			must[any](nil, budgets.Informer().GetIndexer().Update(b))
			if len(services.Selecting("shop", pod))+len(budgets.Selecting("shop", pod)) > 0 {
				t.Fatal("selected")
			}
		}
		must[any](nil, services.Informer().GetIndexer().Delete(service("shop", "s", nil)))
		must[any](nil, budgets.Informer().GetIndexer().Delete(budget("shop", "b", nil)))
	})
	if grown > 4<<20 {
		t.Errorf("%d bytes are left", grown)
	}
}

// A lookup costs no more because of what another namespace has, and an object of a tenant is indexed in a time that is linear in its size.
func TestSelectorsOfOthersCostNothing(t *testing.T) {
	services, budgets := must(Services(NewFactory(fake.NewClientset(), 0))), must(Budgets(NewFactory(fake.NewClientset(), 0)))
	const n = 30_000
	for i := range n {
		must[any](nil,
			services.Informer().GetIndexer().Add(service("evil", fmt.Sprint("s", i),
				map[string]string{"app": "web", fmt.Sprint("k", i): "x"})))
	}
	must[any](nil, services.Informer().GetIndexer().Add(service("shop", "web", map[string]string{"app": "web"})))
	look := func(namespace string) time.Duration {
		return costs.CPU(func() {
			for range 100 {
				if found := services.Selecting(namespace, map[string]string{"app": "web"}); namespace == "shop" && len(found) != 1 {
					t.Fatal(found)
				}
			}
		})
	}
	look("evil") // there are too many sets of keys, which is remembered
	if took := look("shop"); costs.Exceeds(took, 50*time.Millisecond) {
		t.Errorf("100 lookups take %s beside %d Services of another namespace", took, n)
	}
	var expressions []metav1.LabelSelectorRequirement
	for i := range 8000 {
		expressions = append(expressions,
			metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpIn, Values: []string{"x"}})
	}
	for i := range 3 {
		b := budget("evil", "b", &metav1.LabelSelector{MatchExpressions: append(expressions, metav1.LabelSelectorRequirement{
			Key: "last", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint(i)}})})
		took := costs.CPU(func() { must[any](nil, budgets.Informer().GetIndexer().Update(b)) })
		if costs.Exceeds(took, 200*time.Millisecond) {
			t.Errorf("a budget of 8000 expressions is indexed in %s", took)
		}
		if took := costs.CPU(func() { budgets.Selecting("evil", map[string]string{"k0": "x"}) }); costs.Exceeds(took, 20*time.Millisecond) {
			t.Errorf("it is looked up in %s", took)
		}
	}
}

// The selectors of one namespace leave indexes for others.
func TestIndexesAreLeftForOthers(t *testing.T) {
	pods := must(PodsByLabels(NewFactory(fake.NewClientset(), 0)))
	for i := range podsWorthAnIndex {
		for _, namespace := range []string{"evil", "shop"} {
			must[any](nil,
				pods.Informer().GetIndexer().Add(labeledPod(namespace, fmt.Sprint("p", i), map[string]string{"app": fmt.Sprint("a", i)})))
		}
	}
	for i := range 2 * mostPodIndexes {
		pods.Selected("evil", map[string]string{fmt.Sprint("k", i): "x"})
	}
	before := len(pods.Informer().GetIndexer().GetIndexers())
	for range 2 {
		if found := pods.Selected("shop", map[string]string{"app": "a1"}); len(found) != 1 || found[0].Name != "p1" {
			t.Errorf("found %v", found)
		}
	}
	if after := len(pods.Informer().GetIndexer().GetIndexers()); after != before+1 || before > 20 {
		t.Errorf("%d indexes, and %d before another namespace needed one", after, before)
	}
}

// An orphan costs no more because of the selectors of those who do not adopt it, however large these are.
func TestSelectorsOfOwnersCostLittle(t *testing.T) {
	var all []*appsv1.ReplicaSet
	for i := range 100 {
		all = append(all,
			&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("s", i)}, Spec: appsv1.ReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: manyLabels(i)}}})
	}
	all = append(all, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}})
	owners := Owners[*appsv1.ReplicaSet]{Kind: "ReplicaSet", In: func(string) []*appsv1.ReplicaSet { return all },
		Selector: func(s *appsv1.ReplicaSet) *metav1.LabelSelector { return s.Spec.Selector }}
	if took := costs.CPU(func() {
		if keys := owners.Enqueues(nil, labeledPod("shop", "p", map[string]string{"app": "web"})); len(keys) != 1 {
			t.Errorf("enqueued %v", keys)
		}
	}); costs.Exceeds(took, 20*time.Millisecond) {
		t.Errorf("took %s", took)
	}
}
