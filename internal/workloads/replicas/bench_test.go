package replicas

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkNothingToDo is a look at a set of so many pods, all as they should be, that has nothing to write: what every
// event of a pod costs.
func BenchmarkNothingToDo(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			set, all := web(int32(n), told(int32(n))), pods(n)
			b.ReportAllocs()
			for b.Loop() {
				s := newSnapshot(OfReplicaSet(set), all)
				p := planPods(now, s)
				if r := reportStatus(now, s, plan.Outcome{}); !p.Empty() || !r.Empty() {
					b.Fatal(lines(p.Steps), lines(r.Steps))
				}
			}
		})
	}
}

// BenchmarkScaleDown ranks so many pods to find the tenth of them that are to go.
func BenchmarkScaleDown(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			var all []*corev1.Pod
			for i := range n {
				all = append(all, pod(fmt.Sprintf("p%d", i*7919%n), ready(time.Duration(i)*time.Second), node(fmt.Sprint("node-", i%50))))
			}
			s := snapshotOf(web(int32(n-n/10)), all)
			b.ReportAllocs()
			for b.Loop() {
				p := planPods(now, s)
				if gone := len(p.Steps[0].(plan.Delete).Objects); gone != min(n/10, burst) {
					b.Fatal(gone)
				}
			}
		})
	}
}
