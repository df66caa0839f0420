package podgc

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPlan plans for each rule, with so many pods that it has to do with.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		finished, doomed := []*corev1.Pod{}, []*corev1.Pod{}
		for i := range n {
			name, age := fmt.Sprint("p", i), time.Duration(i*7919%n)*time.Second
			finished = append(finished, pod(name, fmt.Sprintf("succeeded in=ns%d age=%s", i%10, age)))
			doomed = append(doomed, pod(name, fmt.Sprintf("deleting on=n age=%s", age)))
		}
		for _, c := range []struct {
			name string
			snapshot
		}{
			{"terminated-half", snapshot{Rule: terminated, Pods: finished, Policy: policy{Threshold: n / 2}}},
			{"terminated-per-namespace", snapshot{Rule: terminated, Pods: finished, Policy: policy{PerNamespace: 2}}},
			{"orphaned", snapshot{Rule: orphaned, Pods: doomed, Gone: map[string]bool{"n": true}, Held: held{Kind: free}}},
		} {
			b.Run(fmt.Sprintf("%s-%d-pods", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if p := planPods(epoch, c.snapshot); p.Empty() {
						b.Fatal(p.Why)
					}
				}
			})
		}
	}
}
