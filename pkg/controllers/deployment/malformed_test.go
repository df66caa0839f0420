package deployment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, a look at them does not panic, writes no object twice, and leaves a Deployment alone whose
// selector says nothing.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		p := rolledOut(now, s)
		assertOncePerObject(t, p.Steps)
		if p.Requeue < 0 {
			t.Errorf("looks again after %v", p.Requeue)
		}
		if selector, err := metav1.LabelSelectorAsSelector(s.Deployment.Spec.Selector); (err != nil || s.Deployment.Spec.Selector == nil ||
			selector.Empty()) && !p.Empty() {
			t.Errorf("selector %v: %v", s.Deployment.Spec.Selector, p.Why)
		}
		statusAfter(now, s, did(p, nil))
		statusAfter(now, s, plan.Outcome{})
	})
}

// anything is a Deployment, ReplicaSets that are its own and a pod of each. Of some the selectors fit.
func anything(t *rapid.T) snapshot {
	fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
	d := &appsv1.Deployment{}
	fill(d)
	d.DeletionTimestamp, d.Namespace, d.Name, d.UID = nil, "shop", "web", "web"
	fits := rapid.Bool().Draw(t, "the selector fits")
	if fits {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	s := snapshot{Deployment: d, Pods: map[types.UID][]*corev1.Pod{}}
	for _, uid := range []types.UID{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(t, "sets")] {
		set, pod := &appsv1.ReplicaSet{}, &corev1.Pod{}
		fill(set)
		fill(pod)
		set.Namespace, set.Name, set.UID = d.Namespace, string(uid), uid
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		if fits {
			set.Labels = map[string]string{"app": "web"}
		}
		if rapid.Bool().Draw(t, "current") {
			set.Spec.Template = d.Spec.Template
		}
		pod.Namespace = d.Namespace
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		s.ReplicaSets, s.Pods[uid] = append(s.ReplicaSets, set), []*corev1.Pod{pod}
	}
	return s
}
