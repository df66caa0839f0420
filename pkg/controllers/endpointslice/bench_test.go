package endpointslice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// BenchmarkPodChange is what one change of a pod costs: to find its service, to observe it, and to plan.
func BenchmarkPodChange(b *testing.B) {
	s := snapshotOf(web(), nil, pods(5000)...)
	k := newCaches(b, s.Service, node("n1", "a", "1"))
	for _, p := range s.Pods {
		k.put(b, p)
	}
	for _, o := range stored(s) {
		k.put(b, o)
	}
	before, after := s.Pods[0], pod("p0000", "10.0.0.0", unready)
	k.put(b, after)
	r := request()
	o, _ := k.observe(b.Context(), r)
	r.Memory = o.Memory
	b.ReportAllocs()
	for b.Loop() {
		for _, key := range k.enqueuedByPod(before, after) {
			r.Key = key
			o, _ := k.observe(b.Context(), r)
			if planSlices(now, o.Snapshot).Empty() {
				b.Fatal("nothing to do")
			}
		}
	}
}
