package vacprotection

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkObserveAndPlan reconciles a class that is being deleted, and so many claims use.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := newCaches(b, newClass(leaving, with(finalizer)))
			for i := range n {
				k.cache(b, newClaim(fmt.Sprint("data-", i), "spec", "gold"))
			}
			for b.Loop() {
				o, err := k.observe(b.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "gold"}})
				if p := planFinalizer(epoch, o.Snapshot); err != nil || !p.Empty() || o.Snapshot.Claims.Count != n {
					b.Fatal(p.Why, err)
				}
			}
		})
	}
}

// BenchmarkClaimChanges looks at claims that change, as every change of any claim in the cluster is looked at.
func BenchmarkClaimChanges(b *testing.B) {
	k := newCaches(b, newClass(leaving, with(finalizer)))
	c := newClaim("data", "spec", "gold")
	for b.Loop() {
		if k.enqueuedByUser(ofClaim(c), ofClaim(c)) != nil {
			b.Fatal("it enqueues")
		}
	}
}
