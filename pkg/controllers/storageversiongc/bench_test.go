package storageversiongc

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkPlan plans for a StorageVersion with many entries, of which one is to go.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := seen(newVersion("gone=v1 "+strings.Repeat("server=v1 ", n)), "gone", "-gone")
			for b.Loop() {
				if p := planEntries(epoch, s); p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
