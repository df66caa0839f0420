package clustertrustbundlepublisher

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkPlan plans with many bundles, of which one is as it should be.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := snapshot{Authorities: strings.Repeat("CA", 1000), Authoritative: true}
			s.Bundles = append(s.Bundles, newBundle(nameOf(s.Authorities), s.Authorities))
			for i := range n {
				s.Bundles = append(s.Bundles, newBundle(fmt.Sprint(prefix, ":", i), "old"))
			}
			for b.Loop() {
				if p := planBundle(epoch, s); len(p.Steps) != 1 {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
