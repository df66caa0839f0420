package nodelifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the node and its pods are, neither planning nor counting its zone panics. One that is to be looked at again is so after now,
// and a change of the node leaves nothing to change.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		now, s := draw(t)
		n := &corev1.Node{}
		fill(n)
		if rapid.Bool().Draw(t, "known conditions") {
			for i := range n.Status.Conditions {
				n.Status.Conditions[i].Type = rapid.SampledFrom([]corev1.NodeConditionType{corev1.NodeReady, corev1.NodeDiskPressure,
					""}).Draw(t, "type")
				n.Status.Conditions[i].Status = rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown,
					""}).Draw(t, "status")
			}
		}
		n.Name, n.UID = s.Name, "u"
		s.Node = n
		for _, p := range s.Pods {
			fill(p)
			if rapid.Bool().Draw(t, "says that it is ready") {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			}
		}
		z := firstZones([]*corev1.Node{n})
		if s.Zone.Known {
			s.Zone = z.of(now, n)
		}
		d, p := planNode(now, s)
		if p.Requeue < 0 || p.Why == "" {
			t.Errorf("again in %v: %q", p.Requeue, p.Why)
		}
		next, _ := remember(now, s, d, nil, plan.Outcome{}, plan.Outcome{})
		for _, c := range changes(p.Steps) {
			if is, ok := c.New.(*corev1.Node); ok {
				z = z.next(s.Node, is)
				s.Node = is
			}
		}
		if s.Memory = *next; s.Zone.Known {
			s.Zone = z.of(now, s.Node)
		}
		_, p = planNode(now, s)
		for _, c := range changes(p.Steps) {
			if _, ok := c.New.(*corev1.Node); ok {
				t.Errorf("it is not done: %v", plantest.Writes(p))
			}
		}
		if left := z.next(s.Node, nil); len(left) > 0 {
			t.Errorf("the node is gone, and counted: %s", text(left))
		}
	})
}

// A node without anything is no reason to panic either.
func TestEmptyNode(t *testing.T) {
	s := snapshot{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{}}, Pods: []*corev1.Pod{{}}}
	if _, p := planNode(moment, s); p.Why == "" {
		t.Errorf("%+v", p)
	}
}
