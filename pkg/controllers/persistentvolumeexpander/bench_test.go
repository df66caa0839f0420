package persistentvolumeexpander

import "testing"

// BenchmarkObserveAndPlan reconciles a claim that waits for a larger volume. This does not depend on how many claims there are.
func BenchmarkObserveAndPlan(b *testing.B) {
	k := newCaches(b, newClaim(asks("2Gi")), newVolume())
	r := request(&memory{UID: "uid-data", Request: *saw("2Gi")})
	for b.Loop() {
		o, err := k.observe(b.Context(), r)
		if p := planHandOver(epoch, o.Snapshot); err != nil || !p.Empty() {
			b.Fatal(p.Why, err)
		}
	}
}

// BenchmarkClaimChanges looks at claims that change, as every change of any claim in the cluster is looked at.
func BenchmarkClaimChanges(b *testing.B) {
	before, after := newClaim(), newClaim(named("x"))
	for b.Loop() {
		if enqueuedByClaim(before, after) != nil {
			b.Fatal("it enqueues")
		}
	}
}
