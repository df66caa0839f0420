package namespace

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkRound counts so many objects that finalizers hold, decides that nothing is left to do about them, and says so in the conditions.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		var held []*metav1.PartialObjectMetadata
		for i := range n {
			held = append(held, deleted(fmt.Sprint("s-", i), "example.com/hold"))
		}
		b.Run(fmt.Sprintf("%d-objects", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := snapshot{Namespace: ending(), SettledAt: now, Contents: []content{has(secrets, "secrets", held...)}}
				if p := planContent(now, s); !p.Empty() || reportConditions(now, s, plan.Outcome{}).Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
