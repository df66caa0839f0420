package endpointslice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkPlan plans for a service of so many pods of which one has changed.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 5000, 10_000} {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			s := snapshotOf(web(), nil, pods(n)...)
			s.Slices = stored(s)
			s.Pods = append([]*corev1.Pod{pod("p0000", "10.0.0.0", unready)}, s.Pods[1:]...)
			b.ReportAllocs()
			for b.Loop() {
				if p := planSlices(now, s); p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

// BenchmarkPodChange is what one change of a pod costs: to find its service, to observe it, and to plan. Each pod changes in turn,
// and the caches show what was planned.
func BenchmarkPodChange(b *testing.B) {
	s := snapshotOf(web(), nil, pods(5000)...)
	k := newRealCaches(b, s.Service, node("n1", "a", "1"))
	for _, p := range s.Pods {
		k.put(b, p)
	}
	k.show(b, nil, stored(s))
	r := request()
	o, _ := k.observe(b.Context(), r)
	r.Memory = o.Memory
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		before := s.Pods[i%len(s.Pods)]
		after := pod(before.Name, before.Status.PodIP, version(i+2))
		if podutil.Ready(before) {
			unready(after)
		}
		s.Pods[i%len(s.Pods)] = after
		k.put(b, after)
		for _, key := range k.enqueuedByPod(before, after) {
			r.Key, r.Changes = key, []reconcile.Change{{Before: before, After: after}}
			o, _ := k.observe(b.Context(), r)
			p := planSlices(now, o.Snapshot)
			slices, n := carryOut(o.Snapshot, p)
			if n.updates != 1 {
				b.Fatal(p.Why)
			}
			k.show(b, o.Snapshot.Slices, slices)
			r.Memory = o.Memory
		}
	}
}
