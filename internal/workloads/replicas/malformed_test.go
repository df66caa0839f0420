package replicas

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, a look at them does not panic, and a set whose selector says nothing is left alone.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		set := &appsv1.ReplicaSet{}
		fill(set)
		set.DeletionTimestamp, set.Namespace, set.UID = nil, "shop", "set"
		fits := rapid.Bool().Draw(t, "the selector fits")
		if fits {
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}
		s := newSnapshot(OfReplicaSet(set), nil)
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			own := *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
			other := own
			other.UID = "other"
			p.OwnerReferences = rapid.SampledFrom([][]metav1.OwnerReference{nil, {own}, {own, other}, {other, own}, {own, own}}).Draw(t,
				"owners")
			if fits {
				p.Labels = map[string]string{"app": "web"}
			}
			s.Pods = append(s.Pods, p)
		}
		p := planPods(now, s)
		if p.Requeue < 0 {
			t.Errorf("looks again after %v", p.Requeue)
		}
		if _, err := plan.Selector(set.Spec.Selector); err != nil && !p.Empty() {
			t.Errorf("selector %v: %v", set.Spec.Selector, p.Why)
		}
		reportStatus(now, s, plan.Outcome{})
	})
}
