package endpoint

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkPodChange is what one change of a pod costs: to find its services, to find their pods, and to plan. Each
// service has ten pods; what is beside them must not matter.
func BenchmarkPodChange(b *testing.B) {
	for _, c := range []struct{ services, others int }{{30, 100}, {300, 100}, {30, 10_000}, {300, 10_000}} {
		b.Run(fmt.Sprintf("%d-services-%d-other-pods", c.services, c.others), func(b *testing.B) {
			k := crowd(b, c.services, c.others)
			before := k.pods.Get("shop", "p3")
			after := before.DeepCopy()
			unready(after)
			k.put(b, after) // so that there is always something to write
			r := request()
			b.ReportAllocs()
			for b.Loop() {
				keys := k.enqueuedByPod(before, after)
				if len(keys) != 1 {
					b.Fatal(keys)
				}
				for _, key := range keys {
					r.Key = key
					o, _ := k.observe(b.Context(), r)
					if planEndpoints(now, o.Snapshot).Empty() {
						b.Fatal("nothing to do")
					}
				}
			}
		})
	}
}

// BenchmarkPlan plans for a service of so many pods that has nothing to write.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			s := snapshotOf(web(), nil, pods(n)...)
			s.Endpoints = stored(s)
			b.ReportAllocs()
			for b.Loop() {
				if p := planEndpoints(now, s); !p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

// crowd is a namespace of services with the selectors app=s0, app=s1, ..., ten pods for the first, and others.
func crowd(t failer, services, others int) *caches {
	k := newCaches(t)
	for i := range services {
		k.put(t, web(called(fmt.Sprint("s", i)), selecting("part-of=shop", fmt.Sprint("app=s", i))))
	}
	for i, p := range pods(10 + others) {
		p.Name = fmt.Sprint("p", i)
		p.Labels = map[string]string{"part-of": "shop", "app": "others"}
		if i < 10 {
			p.Labels["app"] = "s0"
		}
		k.put(t, p)
	}
	r := request()
	r.Key.Name = "s0"
	o, _ := k.observe(context.Background(), r)
	k.put(t, stored(o.Snapshot))
	return k
}
