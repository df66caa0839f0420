package oracle

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func aDaemonSet(surge, unavailable int) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: named("agent"), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: podTemplate("a"),
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{
				MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(unavailable)),
			}},
	}}
}

// daemonPod is a pod of a DaemonSet that is meant for a node.
func (s *scene) daemonPod(d Object, node string) *corev1.Pod {
	s.n++
	p := &corev1.Pod{ObjectMeta: named(fmt.Sprint("agent-", s.n)), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	p.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name",
				Operator: "In",
				Values:   []string{node}}}}},
		}}}
	ownedBy(p, DaemonSet, d)
	return p
}

// spread makes nodes, and a DaemonSet with a ready pod on each.
func (s *scene) spread(d *appsv1.DaemonSet, nodes ...string) (Object, []Object) {
	for _, name := range nodes {
		s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	set := s.User().Create(d)
	var pods []Object
	for _, name := range nodes {
		pods = append(pods, s.User().Edit(s.Manager().Create(s.daemonPod(set, name)), runOn(name)))
	}
	s.Wait(time.Minute)
	return set, pods
}

func runOn(node string) func(Object) {
	return func(o Object) {
		p := o.(*corev1.Pod)
		p.Spec.NodeName = node
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	}
}

func unreadyNow(o Object) { o.(*corev1.Pod).Status.Conditions[0].Status = corev1.ConditionFalse }

func TestOneDaemonPodPerNode(t *testing.T) { // S20
	run(t, OneDaemonPodPerNode(), []history{
		{name: "DS-30 a pod for each node", write: func(s *scene) { s.spread(aDaemonSet(0, 1), "n1", "n2") }},
		{name: "DS-30 a second one", write: func(s *scene) {
			d, _ := s.spread(aDaemonSet(0, 1), "n1")
			s.Manager().Create(s.daemonPod(d, "n1"))
		}, want: "created for node n1, which has 1 pods"},
		{name: "DS-30 beside one that terminates", write: func(s *scene) {
			d, pods := s.spread(aDaemonSet(0, 1), "n1")
			s.Manager().Terminate(pods[0])
			s.Manager().Create(s.daemonPod(d, "n1"))
		}, want: "which has 1 pods"},
		{name: "DS-30 when the other one is gone", write: func(s *scene) {
			d, pods := s.spread(aDaemonSet(0, 1), "n1")
			s.Manager().Delete(pods[0])
			s.Manager().Create(s.daemonPod(d, "n1"))
		}},
		{name: "DS-16 beside one that has ended", write: func(s *scene) {
			d, pods := s.spread(aDaemonSet(0, 1), "n1")
			s.User().Edit(pods[0], fail)
			s.Manager().Create(s.daemonPod(d, "n1"))
		}},
		{name: "DS-33 with a surge", write: func(s *scene) {
			d, _ := s.spread(aDaemonSet(1, 0), "n1")
			s.Manager().Create(s.daemonPod(d, "n1"))
		}},
		{name: "DS-33 two with a surge", write: func(s *scene) {
			d, _ := s.spread(aDaemonSet(1, 0), "n1")
			s.Manager().Create(s.daemonPod(d, "n1"))
			s.Manager().Create(s.daemonPod(d, "n1"))
		}, want: "which has 2 pods"},
	})
}

func TestDaemonSetsStayAvailable(t *testing.T) { // S21
	run(t, DaemonSetsStayAvailable(), []history{
		{name: "DS-61 one of three", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 1), "n1", "n2", "n3")
			s.Manager().Delete(pods[0])
		}},
		{name: "DS-61 two of three", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 1), "n1", "n2", "n3")
			s.Manager().Terminate(pods[0])
			s.Manager().Delete(pods[1])
		}, want: "1 of 3 nodes are left with an available pod"},
		{name: "DS-61 two of three that are allowed", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 2), "n1", "n2", "n3")
			s.Manager().Delete(pods[0])
			s.Manager().Delete(pods[1])
		}},
		{name: "DS-62 beside one that is not ready any more", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 1), "n1", "n2", "n3")
			s.User().Edit(pods[0], unreadyNow)
			s.Wait(time.Minute)
			s.Manager().Delete(pods[1])
		}, want: "1 of 3 nodes are left"},
		{name: "which the manager does not know yet", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 1), "n1", "n2", "n3")
			s.User().Edit(pods[0], unreadyNow)
			s.Manager().Delete(pods[1])
		}},
		{name: "DS-62 those that are not ready", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 1), "n1", "n2", "n3")
			for i := range pods[:2] {
				pods[i] = s.User().Edit(pods[i], unreadyNow)
			}
			s.Wait(time.Minute)
			s.Manager().Delete(pods[0])
			s.Manager().Delete(pods[1])
		}},
		{name: "DS-63 with a surge, beside a new one that is available", write: func(s *scene) {
			d, pods := s.spread(aDaemonSet(1, 0), "n1", "n2")
			s.User().Edit(s.Manager().Create(s.daemonPod(d, "n1")), runOn("n1"))
			s.Manager().Delete(pods[0])
		}},
		{name: "DS-63 with a surge, before that", write: func(s *scene) {
			d, pods := s.spread(aDaemonSet(1, 0), "n1", "n2")
			s.Manager().Create(s.daemonPod(d, "n1"))
			s.Manager().Delete(pods[0])
		}, want: "1 of 2 nodes are left"},
		{name: "DS-63 with a surge, beside a new one of which the manager does not know yet that it is not ready any more",
			write: func(s *scene) {
				d, pods := s.spread(aDaemonSet(1, 0), "n1", "n2")
				s.User().Edit(s.User().Edit(s.Manager().Create(s.daemonPod(d, "n1")), runOn("n1")), unreadyNow)
				s.Manager().Delete(pods[0])
			}},
		{name: "DS-63 with a surge, beside a new one that is not ready any more", write: func(s *scene) {
			d, pods := s.spread(aDaemonSet(1, 0), "n1", "n2")
			s.User().Edit(s.User().Edit(s.Manager().Create(s.daemonPod(d, "n1")), runOn("n1")), unreadyNow)
			s.Wait(time.Minute)
			s.Manager().Delete(pods[0])
		}, want: "1 of 2 nodes are left"},
		{name: "DS-34 misplaced", write: func(s *scene) {
			_, pods := s.spread(aDaemonSet(0, 1), "n1", "n2")
			s.Manager().Terminate(pods[1])
			n := s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n9"}})
			s.User().Edit(n, func(o Object) { o.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoExecute"}} })
			s.User().Edit(s.User().Edit(pods[0], func(o Object) { o.(*corev1.Pod).Spec.NodeName = "n9" }), func(Object) {})
			s.Wait(time.Minute)
			s.Manager().Delete(pods[0])
		}},
	})
}
