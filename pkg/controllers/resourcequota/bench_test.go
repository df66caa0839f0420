package resourcequota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkPodDeletion is the work for one pod that is deleted in a namespace with 5 quotas, without requests: the event, and for each
// quota the sum and the plan. It does not depend on how many pods there are.
func BenchmarkPodDeletion(b *testing.B) {
	for _, pods := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			s := newSources(quota.Gates{}, 0)
			s.counters = newUsageCounters(s.dirty.add)
			counter := s.newCounter(quota.Pods(), func() {})
			var quotas []*corev1.ResourceQuota
			var specs []quotaSpec
			for i := range 5 {
				q := quotaOf(amounts("pods", pods, "requests.cpu", pods, "limits.memory", "1Ti"), said(amounts("pods", pods, "requests.cpu", pods)))
				q.Name = fmt.Sprint(i)
				c, err := quotaSpecOf(q, s.gates)
				if err != nil {
					b.Fatal(err)
				}
				s.counters.setQuota(plan.Key{Namespace: "shop", Name: q.Name}, &c)
				quotas, specs = append(quotas, q), append(specs, c)
			}
			all := make([]*corev1.Pod, pods)
			for i := range all {
				all[i] = podNamed(fmt.Sprint("web-", i))
				all[i].UID = types.UID(all[i].Name)
				counter.OnUpdate(all[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				counter.OnDelete(all[i%pods])
				for j, q := range quotas {
					sum, _, _ := s.counters.count("shop", specs[j], s.counters.sequence)
					snap := snapshot{Quota: q, Counted: sum}
					snap.Memory = memory{UID: q.UID, Seen: 100, Known: []corev1.ResourceName{"limits.memory", "pods", "requests.cpu"}}.
						advance(epoch, q, sum, []version{{Version: 100}}, nil)
					planUsage(epoch, snap)
				}
				b.StopTimer()
				counter.OnUpdate(all[i%pods])
				b.StartTimer()
				i++
			}
		})
	}
}

// BenchmarkPlan is the plan for a quota with many limits.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			hard := corev1.ResourceList{}
			for i := range n {
				hard[corev1.ResourceName(fmt.Sprintf("count/things-%d.example.com", i))] = resource.MustParse("1")
			}
			s := snapshot{Quota: quotaOf(hard), Counted: hard}
			b.ReportAllocs()
			for b.Loop() {
				planUsage(epoch, s)
			}
		})
	}
}
