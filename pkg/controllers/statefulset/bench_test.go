package statefulset

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkReconcile is what plan and report of a set cost that has nothing to do.
func BenchmarkReconcile(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, policy := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
			b.Run(fmt.Sprintf("%s/pods=%d", policy, n), func(b *testing.B) {
				set := web(int32(n), claims("data"))
				set.Spec.PodManagementPolicy = policy
				objects := []plan.Object{revision("v1", 1, set)}
				for i := range n {
					objects = append(objects, pod(set, i, "v1"), claim(fmt.Sprint("data-web-", i)))
				}
				s := see(set, objects...)
				did := plan.Outcome{}
				b.ReportAllocs()
				for b.Loop() {
					if p := planned(now, s); !p.Empty() {
						b.Fatal(lines(p.Steps))
					}
					reported(now, s, did)
				}
			})
		}
	}
}
