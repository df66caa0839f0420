package deployment

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkWaiting is a look in the middle of a large rollout that has nothing to write: what every event of a pod
// costs.
func BenchmarkWaiting(b *testing.B) {
	sets := []rs{}
	for i := range 10 {
		sets = append(sets, rs{image: fmt.Sprintf("o%d", i)})
	}
	s := settled(scene(web(500), append(sets, rs{image: "v1", size: 375, ready: 375}, rs{image: "v2", size: 250, pending: 250})...), now)
	b.ReportAllocs()
	for b.Loop() {
		p := planRollout(now, s)
		if r := reportStatus(now, s, plan.Outcome{}); !p.Empty() || !r.Empty() {
			b.Fatal(lines(p.Steps), lines(r.Steps))
		}
	}
}
