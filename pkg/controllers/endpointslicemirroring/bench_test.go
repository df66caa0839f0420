package endpointslicemirroring

import (
	"fmt"
	"testing"
)

// BenchmarkPlan plans for Endpoints of so many addresses, of which at most 1000 are mirrored: to begin with, and when one of them has
// changed.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		addresses := make([]string, n)
		for i := range addresses {
			addresses[i] = fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)
		}
		first := snapshotOf(byHand(subset("http", addresses...)))
		mirrored, _ := carryOut(first)
		addresses[0] = "10.255.0.1"
		changed := snapshotOf(byHand(subset("http", addresses...)), mirrored...)
		for name, s := range map[string]snapshot{"first": first, "one-changed": changed} {
			b.Run(fmt.Sprintf("%d-addresses-%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if p := planMirror(now, s); p.Empty() {
						b.Fatal(p.Why)
					}
				}
			})
		}
	}
}
