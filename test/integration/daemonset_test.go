package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

// daemonUser makes nodes that only the DaemonSets of the namespace run on.
func (b *bench) daemonUser(nodes int) *suite.User {
	b.Helper()
	u := b.user()
	u.AddNodes(nodes)
	return u
}

func (b *bench) daemonSet(name string) *appsv1.DaemonSet {
	b.Helper()
	d, err := b.Client.AppsV1().DaemonSets(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func (b *bench) patchDaemonSet(name, document string) {
	b.Helper()
	if _, err := b.Client.AppsV1().DaemonSets(b.ns).Patch(b.Context(), name, types.StrategicMergePatchType, []byte(document),
		metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
}

func setDaemonImage(image string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image)
}

// revisionsOf are the ControllerRevisions of the namespace, by number: "1:agent-abc".
func (b *bench) revisionsOf() (all []appsv1.ControllerRevision) {
	b.Helper()
	list, err := b.Client.AppsV1().ControllerRevisions(b.ns).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(list.Items, func(x, y appsv1.ControllerRevision) int { return int(x.Revision - y.Revision) })
	return list.Items
}

// DS-26, DS-50, DS-53: created, updated, told of and rolled back by kubectl.
func TestDaemonSetByKubectl(t *testing.T) {
	b := share(t)
	u := b.daemonUser(3)
	u.CreateDaemonSet("agent", 1)
	u.WaitDaemonSet("agent", 3)
	for _, p := range b.pods() {
		required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if field := required.NodeSelectorTerms[0].MatchFields[0]; field.Values[0] != p.Spec.NodeName {
			t.Errorf("%s is on %s, and meant for %v", p.Name, p.Spec.NodeName, field.Values)
		}
	}
	b.patchDaemonSet("agent", setDaemonImage("web:2"))
	b.Kubectl(t, "-n", b.ns, "rollout", "status", "daemonset/agent", "--timeout=60s")
	u.WaitDaemonSet("agent", 3)
	first := b.revisionsOf()[0]
	if history := b.Kubectl(t, "-n", b.ns, "rollout", "history", "daemonset/agent"); !strings.Contains(history, "\n1 ") ||
		!strings.Contains(history, "\n2 ") {
		t.Errorf("history:\n%s", history)
	}
	b.Kubectl(t, "-n", b.ns, "rollout", "undo", "daemonset/agent")
	u.WaitDaemonSet("agent", 3)
	for _, p := range b.pods() {
		if p.Spec.Containers[0].Image != "web:1" {
			t.Errorf("%s runs %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
	if all := b.revisionsOf(); len(all) != 2 || all[1].Name != first.Name || all[1].Revision != 3 {
		t.Errorf("%d revisions, the last one is %d, %s", len(all), all[len(all)-1].Revision, all[len(all)-1].Name)
	}
}

// DS-30, DS-34, DS-98, DS-103: nodes are tainted, come and go.
func TestDaemonSetFollowsNodes(t *testing.T) {
	b := share(t)
	u := b.daemonUser(3)
	u.CreateDaemonSet("agent", 1)
	u.WaitDaemonSet("agent", 3)
	node := b.ns + "-001"
	says := func(what string, desired, misscheduled int32) {
		t.Helper()
		b.wait(what, func() error {
			if s := b.daemonSet("agent").Status; s.DesiredNumberScheduled != desired || s.NumberMisscheduled != misscheduled ||
				s.NumberAvailable != desired {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	b.Kubectl(t, "taint", "node", node, "dedicated=x:NoSchedule")
	says("the pod stays", 2, 1)
	b.Kubectl(t, "taint", "node", node, "broken=x:NoExecute")
	says("the pod goes", 2, 0)
	b.Kubectl(t, "taint", "node", node, "broken-", "dedicated-")
	u.WaitDaemonSet("agent", 3)
	b.Kubectl(t, "delete", "node", node)
	says("the node is gone", 2, 0)
}

// DS-31, DS-33: with a surge no node is without a pod, and a failed pod is replaced.
func TestDaemonSetSurge(t *testing.T) {
	b := share(t)
	u := b.daemonUser(2)
	u.CreateDaemonSet("agent", 1)
	u.WaitDaemonSet("agent", 2)
	b.patchDaemonSet("agent", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}}`)
	b.patchDaemonSet("agent", setDaemonImage("web:2"))
	b.wait("an old and a new pod are on a node", func() error {
		on := map[string]int{}
		for _, p := range b.pods() {
			on[p.Spec.NodeName]++
		}
		if s := b.daemonSet("agent").Status; s.UpdatedNumberScheduled < 2 && !slices.Contains([]int{on[b.ns+"-000"], on[b.ns+"-001"]}, 2) {
			return fmt.Errorf("%v, %+v", on, s)
		}
		return nil
	})
	u.WaitDaemonSet("agent", 2)
	failed := b.pods()[0].Name
	if err := b.podStatus(t.Context(), failed, corev1.PodStatus{Phase: corev1.PodFailed}); err != nil {
		t.Fatal(err)
	}
	b.wait("the failed pod is gone", func() error {
		if p := b.pod(failed); p != nil {
			return fmt.Errorf("%s: %s", p.Name, p.Status.Phase)
		}
		return nil
	})
	u.WaitDaemonSet("agent", 2)
}
