package job

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What one reconcile costs apart from its writes: a Job of which most pods have ended.
func BenchmarkReconcile(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		pods := many(n, succeeded, untracked)
		for i := range n / 10 {
			pods[i] = pod(nameOf(i))
		}
		j := sum(int32(n), parallel(int32(n/10)))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := snapshotOf(j, pods...)
				planPods(now, s)
				reportStatus(now, s, plan.Outcome{})
			}
		})
	}
}
