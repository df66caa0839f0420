package servicecidr

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkObserveAndPlan reconciles a ServiceCIDR that is being deleted, and holds so many addresses of which another holds all but one.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			objects := append(many(n), newCIDR([]string{"10.0.0.0/8"}, protected, doomed), other("b", "10.32.0.0/11"),
				newAddress("10.1.0.1"))
			k := cachesWith(b, objects...)
			working(k, func() {
				for b.Loop() {
					o, err := k.observe(b.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "extra"}})
					if p := planFinalizer(epoch, o.Snapshot); err != nil || !p.Empty() || o.Snapshot.Cached.First.String() != "10.1.0.1" {
						b.Fatal(p.Why, err)
					}
				}
			})
		})
	}
}

// BenchmarkAddressChanges is an address that comes and goes among 10,000, as those of all Services do.
func BenchmarkAddressChanges(b *testing.B) {
	k := cachesWith(b, append(many(10_000), newCIDR([]string{"10.0.0.0/8"}, protected, doomed))...)
	working(k, func() {
		one := newAddress("10.64.1.1")
		for b.Loop() {
			k.allocated.Update(func(t tree) tree { return next(next(t, nil, one), one, nil) })
			if len(k.enqueuedByAddress(one, nil)) != 1 {
				b.Fatal("it enqueues nothing")
			}
		}
	})
}
