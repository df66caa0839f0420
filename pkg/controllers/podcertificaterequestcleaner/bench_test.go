package podcertificaterequestcleaner

import "testing"

// BenchmarkPlan plans for a request that waits.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{newRequest(0)}
	for b.Loop() {
		if p := planDeletion(epoch, s); p.Requeue == 0 {
			b.Fatal(p.Why)
		}
	}
}
