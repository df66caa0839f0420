package podgroupprotection

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkObserveAndPlan reconciles a PodGroup that is being deleted, and that so many pods keep.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := cachesWith(b, newGroup("gang", leaving, with(finalizer)))
			for i := range n {
				s.cache(b, newPod(fmt.Sprint("rank-", i), "gang"))
			}
			k := s.ofPodGroups()
			for b.Loop() {
				o := observed(b, k, "gang", time.Minute)
				if p := planGroup(epoch, o.Snapshot); !p.Empty() || o.Snapshot.Members.Count != n {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

// BenchmarkPodChanges looks at pods that change, as every change of any pod in the cluster is looked at.
func BenchmarkPodChanges(b *testing.B) {
	enqueued := cachesWith(b, newGroup("gang", leaving, with(finalizer))).ofPodGroups().enqueuedBy(pods())
	p := newPod("rank-0", "gang")
	for b.Loop() {
		if enqueued(p, p) != nil {
			b.Fatal("it enqueues")
		}
	}
}
