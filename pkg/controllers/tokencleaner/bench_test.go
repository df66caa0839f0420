package tokencleaner

import (
	"testing"
	"time"
)

// BenchmarkPlan plans for a token that has not expired.
func BenchmarkPlan(b *testing.B) {
	s := observed(b, token(name, at(time.Minute)))
	for b.Loop() {
		if p := planDeletion(epoch, s); p.Requeue == 0 {
			b.Fatal(p.Why)
		}
	}
}
