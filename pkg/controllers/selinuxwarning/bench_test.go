package selinuxwarning

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkObserveAndPlan compares so many pods that mount one volume, of which each wants another label.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			objects := storage()
			for i := range n {
				objects = append(objects, newPod(fmt.Sprint("p-", i), claiming("disk"), labelled(fmt.Sprint("s0:c", i))))
			}
			k := cachesWith(b, objects...)
			for b.Loop() {
				o, err := k.observe(b.Context(), request{Key: plan.Key{Name: disk}})
				if d, _ := planEvents(epoch, o.Snapshot); err != nil || len(d.Conflicts) != n*mostConflicts {
					b.Fatal(len(d.Conflicts), err)
				}
			}
		})
	}
}
