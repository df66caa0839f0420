package cronjob

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

// BenchmarkPlan plans with so many finished Jobs, all of which are kept, and BenchmarkMissed after so many missed times.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		var jobs []*batchv1.Job
		for i := range n {
			jobs = append(jobs, run("10:05:00", named(fmt.Sprint("by-hand-", i)), complete("10:06:00")))
		}
		s := see(backup(limits(nil, nil), ranAt("10:05:00"), succeededAt("10:06:00"),
			func(c *batchv1.CronJob) { c.Spec.TimeZone = ptr.To("Europe/Berlin") }), jobs...)
		b.Run(fmt.Sprint(n, "-jobs"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, p := planJobs(clock("10:06:00"), s); !p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

func BenchmarkMissed(b *testing.B) {
	for _, days := range []int{1, 30, 700} {
		s := see(backup(every("* * * * *")))
		now := clock("10:06:00").Add(time.Duration(days) * 24 * time.Hour)
		b.Run(fmt.Sprint(days, "-days"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, p := planJobs(now, s); p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
