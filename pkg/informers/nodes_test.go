package informers

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodesAndEndingPods(t *testing.T) {
	f := NewFactory(nil, 0)
	nodes, err1 := Nodes(f)
	pods, err2 := EndingPods(f)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if _, err := EndingPods(f); err != nil {
		t.Errorf("a second controller asks: %v", err)
	}
	for _, name := range []string{"n1", "n2"} {
		if err := nodes.Informer().GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []struct {
		name, node string
		phase      corev1.PodPhase
		deleted    bool
	}{
		{"a", "n1", "Running", false}, {"b", "n1", "Failed", false}, {"c", "gone", "Succeeded", true}, {"d", "", "Pending", true},
		{"e", "", "", false},
	} {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: p.name}, Spec: corev1.PodSpec{NodeName: p.node}}
		o.Status.Phase = p.phase
		if p.deleted {
			o.DeletionTimestamp = &metav1.Time{}
		}
		if err := pods.Informer().GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	if n := nodes.Get("n1"); n == nil || n.Name != "n1" || nodes.Get("n3") != nil || nodes.Get("") != nil {
		t.Error("Get")
	}
	sorted := func(names []string) string { slices.Sort(names); return strings.Join(names, " ") }
	podNames := func(pods []*corev1.Pod) (names []string) {
		for _, p := range pods {
			names = append(names, p.Name)
		}
		return names
	}
	for _, row := range []struct{ what, got, want string }{
		{"nodes", sorted(nodes.Names()), "n1 n2"},
		{"nodes in use", sorted(pods.NodesInUse()), "gone n1"},
		{"on a node", sorted(podNames(pods.OnNode("n1"))), "a b"},
		{"finished", sorted(podNames(pods.Finished())), "b c"},
		{"terminating", sorted(podNames(pods.Terminating())), "c d"},
	} {
		if row.got != row.want {
			t.Errorf("%s: %q, want %q", row.what, row.got, row.want)
		}
	}
	if n := pods.FinishedCount(); n != 2 {
		t.Errorf("%d finished", n)
	}
}
