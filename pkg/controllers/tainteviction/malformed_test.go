package tainteviction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the pod and the node are, planning does not panic. A pod goes only for a taint of the node with NoExecute, and only if the plan
// asks for its node; one that is to be looked at again is so after now.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		s := draw(t)
		s.Pod, s.Node = &corev1.Pod{}, &corev1.Node{}
		fill(s.Pod)
		fill(s.Node)
		if rapid.IntRange(0, 3).Draw(t, "deleting") == 0 {
			s.Pod.DeletionTimestamp = &metav1.Time{Time: epoch}
		}
		noExecute := false
		for i := range s.Node.Spec.Taints {
			if one := &s.Node.Spec.Taints[i]; rapid.Bool().Draw(t, "NoExecute") {
				one.Effect, noExecute = corev1.TaintEffectNoExecute, true
				if i < len(s.Pod.Spec.Tolerations) && rapid.Bool().Draw(t, "of its key") {
					s.Pod.Spec.Tolerations[i].Key = one.Key
				}
			}
		}
		d, p := planEviction(epoch, s)
		if p.Requeue < 0 || p.Why == "" {
			t.Errorf("again in %v: %q", p.Requeue, p.Why)
		}
		proved := len(p.Proof) > 0 || s.Unread != "" && s.Freed
		if deletes(p) != d.Evict || d.Evict && (!noExecute || !proved || s.Pod.DeletionTimestamp != nil) {
			t.Errorf("%+v: %q", d, p.Why)
		}
		remember(epoch, s, d, plan.Outcome{})
	})
}
