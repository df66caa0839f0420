package oracle

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeIs is the condition Ready of a node.
func nodeIs(status corev1.ConditionStatus) func(Object) {
	return func(o Object) {
		o.(*corev1.Node).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
}

func TestNoUnknownBeforeTheGracePeriod(t *testing.T) { // S28
	const broken = "has given a sign of life"
	begin := func(s *scene) (node, lease Object) {
		node = s.User().Edit(s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), nodeIs(corev1.ConditionTrue))
		return node, s.User().Create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}})
	}
	renew := func(s *scene, lease Object) Object {
		return s.User().Edit(lease, func(o Object) { o.(*coordinationv1.Lease).Spec.RenewTime = &metav1.MicroTime{Time: s.Now} })
	}
	// known is a node that has renewed its Lease so long before the history begins, and not in the 20 seconds since.
	known := func(s *scene, ago time.Duration) Object {
		hour, renewed := metav1.NewTime(s.Now.Add(-time.Hour)), metav1.MicroTime{Time: s.Now.Add(-ago)}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: hour}}
		nodeIs(corev1.ConditionTrue)(n)
		node := s.User().Create(n)
		s.User().Create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n",
			CreationTimestamp: hour},
			Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
		s.Wait(20 * time.Second)
		return node
	}
	run(t, NoUnknownBeforeTheGracePeriod(), []history{
		{name: "NL-5 it was silent for long enough", write: func(s *scene) {
			node, lease := begin(s)
			s.Wait(time.Minute)
			renew(s, lease)
			s.Wait(50 * time.Second)
			s.Manager().Edit(node, nodeIs(corev1.ConditionUnknown))
		}},
		{name: "NL-5 it has renewed its Lease", write: func(s *scene) {
			node, lease := begin(s)
			s.Wait(30 * time.Second)
			renew(s, lease)
			s.Wait(30 * time.Second)
			s.Manager().Edit(node, nodeIs(corev1.ConditionUnknown))
		}, want: broken},
		{name: "it renews its Lease after a silence that was long enough, right before", write: func(s *scene) {
			node, lease := begin(s)
			s.Wait(time.Minute)
			renew(s, lease)
			s.Wait(time.Second)
			s.Manager().Edit(node, nodeIs(corev1.ConditionUnknown))
		}},
		{name: "it has reported its status", write: func(s *scene) {
			node, _ := begin(s)
			s.Wait(time.Minute)
			node = s.User().Edit(node, func(o Object) {
				o.(*corev1.Node).Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(s.Now)
			})
			s.Wait(20 * time.Second)
			s.Manager().Edit(node, nodeIs(corev1.ConditionUnknown))
		}, want: broken},
		{name: "NL-15 its kubelet never started", write: func(s *scene) {
			node := s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			s.Wait(time.Minute)
			s.Manager().Edit(node, nodeIs(corev1.ConditionUnknown))
		}},
		{name: "NL-15 it has time until its kubelet starts", write: func(s *scene) {
			node := s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			s.Wait(55 * time.Second)
			s.Manager().Edit(node, nodeIs(corev1.ConditionUnknown))
		}, want: broken},
		{name: "the history begins while it is silent", write: func(s *scene) { // a soak, on 2026-11-28
			s.Manager().Edit(known(s, 40*time.Second), nodeIs(corev1.ConditionUnknown))
		}},
		{name: "the history begins after it has renewed its Lease", write: func(s *scene) {
			s.Manager().Edit(known(s, 10*time.Second), nodeIs(corev1.ConditionUnknown))
		}, want: broken},
		{name: "a user says so", write: func(s *scene) {
			node, _ := begin(s)
			s.User().Edit(node, nodeIs(corev1.ConditionUnknown))
		}},
	})
}
