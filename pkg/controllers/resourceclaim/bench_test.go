package resourceclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkObserveAndPlan reconciles a pod with nothing to do, and its claim, among so many pods with a claim of their own each.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := newTestCaches(b, newTemplate("gpu"))
			for i := range n {
				name := fmt.Sprint("web-", i)
				p := newPod(name, wants("a", "gpu"), records("a", name+"-a"), on("n1"))
				k.cache(b, p)
				k.cache(b, newClaim(name+"-a", of(p, "a"), allocated(p)))
			}
			for b.Loop() {
				o, err1 := k.observe(b.Context(), request[memory]("web-50"))
				d, p := planClaims(epoch, o.Snapshot)
				c, err2 := k.observeClaim(b.Context(), request[struct{}]("web-50-a"))
				if err1 != nil || err2 != nil || !p.Empty() || !reportNames(epoch, o.Snapshot, d, done()).Empty() ||
					!planRelease(epoch, c.Snapshot).Empty() {
					b.Fatal(p.Why, err1, err2)
				}
			}
		})
	}
}

// BenchmarkPodChanges looks at pods that change, as every change of any pod in the cluster is looked at.
func BenchmarkPodChanges(b *testing.B) {
	k := newTestCaches(b)
	before, after := newPod("web"), newPod("web", phase(corev1.PodRunning))
	for b.Loop() {
		if k.enqueuedByPod(before, after) != nil || k.claimsByPod(before, after) != nil {
			b.Fatal("it enqueues")
		}
	}
}
