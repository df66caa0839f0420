package usage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkPodDeletion is the work for one pod that is deleted in a namespace with 5 quotas, without requests: the event, and the sum
// for each quota. It does not depend on how many pods there are.
func BenchmarkPodDeletion(b *testing.B) {
	for _, pods := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			x := newIndex(quota.Gates{})
			counter := x.newCounter(quota.Pods(), func() {})
			q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", pods, "requests.cpu", pods, "limits.memory",
				"1Ti")}}
			l, err := sums.LimitsOf(q, quota.Gates{})
			if err != nil {
				b.Fatal(err)
			}
			for i := range 5 {
				x.sums.SetQuota(plan.Key{Namespace: "shop", Name: fmt.Sprint(i)}, &l)
			}
			all := make([]*corev1.Pod, pods)
			for i := range all {
				all[i] = podNamed(fmt.Sprint("web-", i))
				counter.OnUpdate(all[i])
			}
			b.ReportAllocs()
			i, seen := 0, uint64(0)
			for b.Loop() {
				counter.OnDelete(all[i%pods])
				for range 5 {
					_, _, seen = x.Count("shop", l, seen)
				}
				b.StopTimer()
				counter.OnUpdate(all[i%pods])
				b.StartTimer()
				i++
			}
		})
	}
}
