package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(name, owner, load_ string, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase}}
	p.Spec.Containers = []corev1.Container{{Name: "web"}, {Name: "proxy"}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
	}
	if load_ != "" {
		p.Annotations = map[string]string{load: load_}
	}
	return p
}

func TestPodsThatRunShareTheLoadOfTheirOwner(t *testing.T) {
	all := []*corev1.Pod{
		pod("a", "one", "600m", corev1.PodRunning), pod("b", "one", "600m", corev1.PodRunning), pod("c", "one", "600m", corev1.PodPending),
		pod("d", "two", "600m", corev1.PodRunning), pod("e", "", "600m", corev1.PodRunning), pod("f", "one", "", corev1.PodFailed),
		pod("g", "one", "much", corev1.PodSucceeded),
	}
	for _, c := range []struct {
		pod, container string
		want           int64
	}{{"a", "web", 300}, {"a", "proxy", 0}, {"b", "web", 300}, {"d", "web", 600}, {"e", "web", 600}, {"f", "web", 0}, {"g", "web", 0}} {
		for _, p := range all {
			if p.Name != c.pod {
				continue
			}
			if got := used(p, c.container, all)[corev1.ResourceCPU]; got.MilliValue() != c.want {
				t.Errorf("%s of pod %s uses %v", c.container, c.pod, &got)
			}
		}
	}
}
