package tainteviction

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPlan plans for all pods of a node that has become unreachable: for those that are to wait, and for those that are due.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		var all []*corev1.Pod
		for i := range n {
			p := pod(tolerates(notReady, 300), tolerates(unreachable, 300))
			p.Name = fmt.Sprint("web-", i)
			all = append(all, p)
		}
		for name, c := range map[string]struct {
			snapshot
			steps int
		}{
			"wait": {snapshot{Node: node(taint(unreachable, 0))}, 0},
			"due":  {snapshot{Node: node(taint(unreachable, -400)), Read: true}, 3},
		} {
			b.Run(fmt.Sprintf("%d-pods-%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, c.Pod = range all {
						if _, p := planEviction(epoch, c.snapshot); len(p.Steps) != c.steps {
							b.Fatal(p.Why)
						}
					}
				}
			})
		}
	}
}
