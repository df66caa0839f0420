package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
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
					if planned(o.Snapshot).Empty() {
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
				if p := planned(s); !p.Empty() {
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

// BenchmarkReadiness is what one change of readiness costs a service of so many pods: to find the service, to observe it, and to plan. Each
// pod changes in turn, and the caches show what was planned.
func BenchmarkReadiness(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			service, all := web(), pods(n)
			k := newRealCaches(b, service)
			for _, p := range all {
				k.put(b, p)
			}
			r, writes := request(), 0
			again := func(i int) {
				o, _ := k.observe(b.Context(), r)
				pods, p := planEndpoints(now, o.Snapshot)
				if e := carriedOut(o.Snapshot, p); e != o.Snapshot.Endpoints {
					e.ResourceVersion = strconv.Itoa(i)
					k.put(b, e)
					writes++
				}
				r.Memory, _ = k.remember(now, o.Snapshot, pods, o.Memory, plan.Outcome{}, plan.Outcome{})
				r.Changes = nil
			}
			again(1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				at := i * 10 % n
				before := all[at]
				after := pod(before.Name, before.Status.PodIP, version(i+2))
				if podutil.Ready(before) {
					unready(after)
				}
				all[at] = after
				k.put(b, after)
				for _, key := range k.enqueuedByPod(before, after) {
					r.Key, r.Changes = key, append(r.Changes, change(before, after))
					again(i + 2)
				}
			}
			b.ReportMetric(float64(writes)/float64(b.N), "writes/op")
		})
	}
}

func change(before, after plan.Object) reconcile.Change {
	return reconcile.Change{Before: before, After: after}
}

func version(n int) podEdit { return func(p *corev1.Pod) { p.ResourceVersion = strconv.Itoa(n) } }
