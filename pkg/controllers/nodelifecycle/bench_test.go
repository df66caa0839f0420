package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkPlan declares a silent node Unknown, and marks its pods.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		s := snapshot{Name: "n", Node: aNode(readyIs(corev1.ConditionTrue)),
			Memory: memory{UID: "u", First: at(-1000), Announced: true, Proved: true}}
		s.Limits.setDefaults()
		for i := range n {
			s.Pods = append(s.Pods, podOf(fmt.Sprint("web-", i), corev1.ConditionTrue))
		}
		b.Run(fmt.Sprintf("%d-pods", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, p := planNode(moment, s); d.Marked != n {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

// BenchmarkZones is what it costs that one of so many nodes becomes silent: to count it, and to find its turn among the others that are.
func BenchmarkZones(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		var nodes []*corev1.Node
		for i := range n {
			status := corev1.ConditionTrue
			if i%10 == 0 {
				status = corev1.ConditionUnknown
			}
			node := aNode(readyIs(status), labelled(corev1.LabelTopologyZone, fmt.Sprint("zone-", i%3)))
			node.Name = fmt.Sprint("n-", i)
			nodes = append(nodes, node)
		}
		z, silent := firstZones(nodes), nodes[1].DeepCopy()
		silent.Status.Conditions[0].Status, silent.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(moment)
		b.Run(fmt.Sprintf("%d-nodes", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if turn := z.next(nodes[1], silent).of(moment.Add(time.Minute), silent); turn.Before == 0 {
					b.Fatalf("%+v", turn)
				}
			}
		})
	}
}
