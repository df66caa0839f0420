package ttl

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkPlan plans for a node that lacks nothing.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{node("a", "15"), 101, 1}
	b.ReportAllocs()
	for b.Loop() {
		if p := planAnnotation(epoch, s); !p.Empty() {
			b.Fatal(p.Why)
		}
	}
}

// BenchmarkEvents is what a change of a node costs that enqueues nothing, and a node that comes and goes.
func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint("n-", i)
		}
		first := firstSize(names, [steps]int{})
		k, class := &caches{size: sized(b, first)}, first.Class
		watch := k.size.Follow(reconcile.Watch{Enqueues: k.enqueuedByNode})
		o := node("n-1", fmt.Sprint(classes()[class].seconds))
		other := node("other", fmt.Sprint(classes()[class].seconds))
		b.Run(fmt.Sprintf("update/nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				watch.Enqueues(o, o)
			}
		})
		b.Run(fmt.Sprintf("come and go/nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var none plan.Object
			for b.Loop() {
				watch.Enqueues(none, other)
				watch.Enqueues(other, none)
			}
		})
	}
}
