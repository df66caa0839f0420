package ephemeralvolume

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkObserveAndPlan reconciles a pod with nothing to do, among so many pods, each with a claim of its own.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := newCaches(b)
			for i := range n {
				p := newPod(fmt.Sprint("web-", i), ephemeral("a"))
				if err := k.pods.Informer().GetIndexer().Add(p); err != nil {
					b.Fatal(err)
				}
				if err := k.claims.Informer().GetIndexer().Add(newClaim(p.Name+"-a", p)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				o, err := k.observe(b.Context(), request("web-50"))
				if _, p := planClaims(epoch, o.Snapshot); err != nil || !p.Empty() {
					b.Fatal(p.Why, err)
				}
			}
		})
	}
}

// BenchmarkPodChanges looks at pods that change, as every change of any pod in the cluster is looked at.
func BenchmarkPodChanges(b *testing.B) {
	before, after := newPod("web", ephemeral("a")), newPod("web", ephemeral("a"), phase(corev1.PodRunning))
	for b.Loop() {
		if enqueuedByPod(before, after) != nil {
			b.Fatal("it enqueues")
		}
	}
}
