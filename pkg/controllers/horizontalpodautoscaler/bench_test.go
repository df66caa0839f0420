package horizontalpodautoscaler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkDecision is what it costs to decide about a target with so many pods: plan, report and what is remembered.
func BenchmarkDecision(b *testing.B) {
	for _, n := range []int32{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			s := at(n, 80, by(between(1, 20_000)))
			b.ReportAllocs()
			for b.Loop() {
				p := planned(now, s)
				reported(now, s, carriedOut(p))
				remembered(now, s, carriedOut(p))
			}
		})
	}
}

// BenchmarkPeriod is what a period costs of a namespace with so many autoscalers of ten pods each, with the list of their metrics.
func BenchmarkPeriod(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n, "-autoscalers"), func(b *testing.B) {
			k := newBench(b)
			use := map[string]int64{}
			for i := range n {
				name := fmt.Sprint("web-", i)
				k.put(b, web(called(name, name)), deployment(name, 10))
				for j := range 10 {
					p := pod(j, func(p *corev1.Pod) { p.Name, p.Labels = fmt.Sprint(name, "-", j), map[string]string{"app": name} })
					k.put(b, p)
					use[p.Name] = 50
				}
			}
			k.raw[podMetricsPath] = podMetrics(use)
			at := now
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(15 * time.Second)
				for i := range n {
					s := k.observed(b, at, plan.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, nil)
					planned(at, s)
					reported(at, s, plan.Outcome{})
					remembered(at, s, plan.Outcome{})
				}
			}
		})
	}
}
