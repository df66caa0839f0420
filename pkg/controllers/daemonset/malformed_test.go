package daemonset

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, a look at them does not panic and writes no object twice.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { look(t, rapid.Int64().Draw(t, "seed"), rapid.Bool().Draw(t, "the selector fits")) })
}

func FuzzAnyObjectsAtAll(f *testing.F) {
	f.Add(int64(1), true)
	f.Fuzz(func(t *testing.T, seed int64, fits bool) { look(t, seed, fits) })
}

func look(t failer, seed int64, fits bool) {
	fill := plantest.Anything(seed)
	d := &appsv1.DaemonSet{}
	fill(d)
	d.DeletionTimestamp, d.Namespace, d.Name, d.UID = nil, "shop", "agent", "agent"
	if fits {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}
	}
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		p := &corev1.Pod{}
		fill(p)
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels["app"], p.Namespace, p.Name, p.UID, p.Spec.NodeName = "agent", d.Namespace, name, types.UID(name), "n1"
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, kind())}
		pods = append(pods, p)
	}
	r, n := &appsv1.ControllerRevision{}, &corev1.Node{}
	fill(r)
	fill(n)
	r.Namespace, r.UID = d.Namespace, "revision"
	r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, kind())}
	s := newSnapshot(d, pods, []*appsv1.ControllerRevision{r})
	s.Nodes = []node{{"n1", newNodeRules(d, seed%2 == 0).evaluate(n)}, {"n2", eligible}}
	newNodeRules(d, true).appendClass(nil, n)
	s.Backoff, _ = (*memory)(nil).see(now, s)
	p := planDaemonSet(now, s)
	if _, _, written := effects(p.Steps); len(slices.Compact(slices.Sorted(slices.Values(written)))) != len(written) || p.Requeue < 0 {
		t.Fatalf("written: %v, again after %v", written, p.Requeue)
	}
	reportStatus(now, s, plan.Outcome{})
}
