package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// What a live list did not have is waited for until the cache shows that it is gone, or is not selected any more: to wait
// for its end alone would be to wait for ever for a pod that only had its labels changed.
func TestAbsence(t *testing.T) {
	pod := func(uid, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: types.UID(uid), Labels: map[string]string{"app": app}}}
	}
	for name, c := range map[string]struct {
		cached *corev1.Pod
		shown  bool
	}{
		"as it was":        {pod("1", "web"), false},
		"relabelled":       {pod("1", "quarantine"), true},
		"gone":             {nil, true},
		"another, of name": {pod("2", "web"), true},
	} {
		t.Run(name, func(t *testing.T) {
			f, store := NewFreshness(), cache.NewStore(cache.MetaNamespaceKeyFunc)
			f.Use(podKind, store)
			if c.cached != nil {
				if err := store.Add(c.cached); err != nil {
					t.Fatal(err)
				}
			}
			var a awaited
			a.absence(podKind, pod("1", "web"), labels.SelectorFromSet(labels.Set{"app": "web"}))
			if _, ok := a.settle(f); ok != c.shown {
				t.Errorf("shown: %v", ok)
			}
		})
	}
}

// What only a comparison has found missing is doubtful; what this process has deleted itself is not.
func TestDoubtful(t *testing.T) {
	var a awaited
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1"}}
	a.departure(podKind, p, false)
	if a.doubtful() || len(a.departed) != 1 {
		t.Errorf("own deletion: %+v", a.departed)
	}
	a.absence(podKind, p, labels.Everything())
	if !a.doubtful() || len(a.departed) != 1 || a.departed[0].selector != nil {
		t.Errorf("absence: %+v", a.departed)
	}
}
