package resourcequota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// BenchmarkPlan is the plan for a quota with many limits.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
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
