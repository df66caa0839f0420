package podcache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// Whoever uses the cache of pods sees pods: by its methods, in index functions and in handlers, also in what they are told of a pod
// whose deletion was missed (CI-15).
func TestCompactPodsAreNotSeen(t *testing.T) {
	client := must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample))
	pods, _ := NewInformer(client, (*cache.InformerName)(nil).WithResource(corev1.SchemeGroupVersion.WithResource("pods")), 0)
	isPod := func(o any) bool { p, ok := o.(*corev1.Pod); return ok && p.Name == "p" && p.Spec.NodeName == "n" }
	must[any](nil, pods.AddIndexers(cache.Indexers{"mine": func(o any) ([]string, error) {
		if !isPod(o) {
			t.Errorf("an index function gets %T", o)
		}
		return []string{"all"}, nil
	}}))
	store := pods.GetIndexer()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	must[any](nil, store.Add(p))
	byKey, _, _ := store.GetByKey("shop/p")
	same, _, _ := store.Get(p)
	found := append([]any{byKey, same}, store.List()...)
	found = append(found, must(store.ByIndex("mine", "all"))...)
	found = append(found, must(store.Index("mine", p))...)
	if len(found) != 5 {
		t.Errorf("found %d of 5", len(found))
	}
	h := expandingHandler{cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { found = append(found, o) },
		UpdateFunc: func(before, after any) { found = append(found, before, after) },
		DeleteFunc: func(o any) { found = append(found, o.(cache.DeletedFinalStateUnknown).Obj) },
	}}
	c := newInterner(nil).compact(p.DeepCopy())
	h.OnAdd(c, true)
	h.OnUpdate(c, c)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "shop/p", Obj: c})
	for i, o := range found {
		if !isPod(o) {
			t.Errorf("%d: %T", i, o)
		}
	}
}
