package deployment

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkWaiting is a look in the middle of a rollout of so many replicas that has nothing to write: what every event of
// a pod costs.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-replicas"), func(b *testing.B) {
			sets := []rs{}
			for i := range 10 {
				sets = append(sets, rs{image: fmt.Sprintf("o%d", i)})
			}
			from := rs{image: "v1", size: int32(n * 3 / 4), ready: n * 3 / 4}
			to := rs{image: "v2", size: int32(n / 2), pending: n / 2}
			s := settled(snapshotWith(web(int32(n)), append(sets, from, to)...), now)
			b.ReportAllocs()
			for b.Loop() {
				s.Counted = map[types.UID]counted{}
				for _, rs := range s.ReplicaSets {
					s.Counted[rs.UID] = countPods(rs, s.Pods[rs.UID], now)
				}
				p := rolledOut(now, s)
				if r := statusAfter(now, s, plan.Outcome{}); !p.Empty() || !r.Empty() {
					b.Fatal(lines(p.Steps), lines(r.Steps))
				}
			}
		})
	}
}
