package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// Of pods, the caches keep only some fields, so a controller may patch them and must not replace them: client.MethodFor would
// choose an update for a controller that declares no right to patch.
func TestPodsAreOnlyPatched(t *testing.T) {
	for _, entry := range Registry() {
		for _, rule := range entry.Rights().Own {
			if (rule.Resource == "pods" || rule.Resource == "pods/status") && slices.Contains(rule.Verbs, "update") {
				t.Errorf("%s declares that it updates %s", entry.Name, rule.Resource)
			}
		}
	}
}

// No controller asks for a cache that it has no right to: none of them could be built.
func TestControllersHaveTheRightsToTheirCaches(t *testing.T) {
	if _, err := managertest.Projection(Registry()...); err != nil {
		t.Error(err)
	}
}

// What is watched is served by API servers of older releases, too: version 1 of all kinds, and 2 of autoscalers. Others are watched only
// with feature gates that are off by default.
func TestCachesAreOfVersionsThatOlderServersHave(t *testing.T) {
	open := slices.DeleteFunc(Registry(), func(c manager.Controller) bool {
		return slices.ContainsFunc(c.Gates, func(gate string) bool { return !manager.Options{}.Enabled(gate) })
	})
	p, err := managertest.Projection(open...)
	if err != nil {
		t.Fatal(err)
	}
	masks := p.(*projection.Projection).Masks()
	if len(masks) < 20 {
		t.Errorf("only %d kinds", len(masks))
	}
	for kind := range masks {
		autoscalers := kind.GroupVersion() == autoscalingv2.SchemeGroupVersion && strings.HasPrefix(kind.Kind, "HorizontalPodAutoscaler")
		if kind.Version != "v1" && !autoscalers {
			t.Errorf("%s is watched", kind)
		}
	}
}

// Without the garbage collector all others can be built (REG-63: the original ends).
func TestNoControllerNeedsTheGarbageCollector(t *testing.T) {
	registry := Registry()
	if err := managertest.SetFlags(registry, map[string]string{"enable-garbage-collector": "false"}); err != nil {
		t.Fatal(err)
	}
	if _, err := managertest.Projection(registry...); err != nil {
		t.Error(err)
	}
}

// The caches keep the fields that enabled controllers read: without the endpoint controller no ports, without podgc no
// nodes in part.
func TestTheProjectionFollowsTheControllers(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.NodeName, pod.Spec.Containers = "node", []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.DisruptionTarget}, {Type: corev1.PodScheduled}}
	for _, c := range []struct {
		enabled []string
		want    string // node, containers, conditions
	}{
		{nil, "node 1 3"}, // whole
		{[]string{"deployment-controller"}, " 0 1"},
		{[]string{"deployment-controller", "replicaset-controller"}, "node 0 1"},
		{[]string{"endpoints-controller"}, "node 1 1"},
		{[]string{"pod-garbage-collector-controller"}, "node 0 1"},
		{[]string{"pod-garbage-collector-controller", "endpoints-controller"}, "node 1 2"},
	} {
		enabled := slices.DeleteFunc(Registry(), func(entry manager.Controller) bool { return !slices.Contains(c.enabled, entry.Name) })
		p, err := managertest.Projection(enabled...)
		if err != nil {
			t.Fatal(err)
		}
		kept := p.ProjectPod(pod)
		got := fmt.Sprint(kept.Spec.NodeName, " ", len(kept.Spec.Containers), " ", len(kept.Status.Conditions))
		if got != c.want {
			t.Errorf("%v: kept %q, want %q", c.enabled, got, c.want)
		}
	}
}

func TestEachCallReturnsOptionsOfItsOwn(t *testing.T) {
	a, b := Registry(), Registry()
	for i := range a {
		if a[i].Flags != nil && a[i].Flags == b[i].Flags {
			t.Errorf("two registries share the options of %s", a[i].Name)
		}
	}
}
