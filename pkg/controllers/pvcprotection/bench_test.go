package pvcprotection

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkObserveAndPlan reconciles a namespace in which claims are being deleted that pods use.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := newObserver(b)
			for i := range n {
				claim := fmt.Sprint("data-", i)
				o.cache(b, newClaim(claim, leaving, with(finalizer)))
				o.cache(b, pod(fmt.Sprint("web-", i), using(claim)))
			}
			for b.Loop() {
				seen, err := o.observe(b.Context(), reconcile.Request[memory]{Key: plan.Key{Name: "shop"}})
				if err != nil || len(seen.Snapshot.Claims) != n || !planClaims(epoch, seen.Snapshot).Empty() {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPodChanges looks at pods that change, as every change of any pod in the cluster is looked at.
func BenchmarkPodChanges(b *testing.B) {
	o := newObserver(b)
	p := pod("web", using("data"))
	for b.Loop() {
		if o.enqueuedByPod(p, p) != nil {
			b.Fatal("it enqueues")
		}
	}
}
