package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// An object that comes later than the controller wakes nothing if it is to be ignored; changes and deletions still may.
func TestIgnore(t *testing.T) { // EP-7
	r := New(Shared{Freshness: NewFreshness(), Explain: NewExplain()}, Access{}, Controller[toy]{Name: "toy"})
	r.openQueue()
	defer r.queue.ShutDown()
	h := r.handler(Watch{Ignore: func(plan.Object) bool { return true }, Wakes: func(before, after plan.Object) []plan.Key {
		if after == nil {
			after = before
		}
		return []plan.Key{keyOf(after)}
	}})
	named := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	h.OnAdd(named("new"), false)
	h.OnAdd(named("old"), true)
	h.OnDelete(named("gone"))
	if n := r.queue.Len(); n != 2 {
		t.Errorf("%d keys are queued, want old and gone", n)
	}
}
