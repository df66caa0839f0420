package resourcepoolstatusrequest

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkObserveAndPlan answers a request for a pool of so many slices of 8 devices, of which claims have 2.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := &world{caches: cachesWith(b, newRequest()), request: newRequest()}
			for i := range n {
				s := newSlice(fmt.Sprint("slice-", i), fmt.Sprint("node-", i))
				for d := range 8 {
					has(fmt.Sprint(d))(s)
				}
				w.cache(b, s)
				for d := range 2 {
					w.cache(b, newClaim(fmt.Sprint("claim-", i, "-", d), fmt.Sprint("node-", i), fmt.Sprint(d)))
				}
			}
			for b.Loop() {
				s := w.observed(b, time.Hour).Snapshot
				s.Late = nil
				if d, p := planAnswer(epoch.Add(time.Hour), s); d == nil || int(*d.PoolCount) != n {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

// BenchmarkSliceChanges looks at slices that change, for which nobody has asked.
func BenchmarkSliceChanges(b *testing.B) {
	k, s := cachesWith(b), newSlice("slice", "p")
	for b.Loop() {
		if k.enqueuedBySlice(s, s) != nil {
			b.Fatal("it enqueues")
		}
	}
}
