package cronjob

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Each creation of a Job is measured from its time, and nothing else is.
func TestSkewMetric(t *testing.T) { // CJ-80
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCollectors(), metrics.NewKubeRegistry()
		registry.MustRegister(c.skew)
		due := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(due) + 3*time.Second)
		s := see(backup(every("* * * * *"), func(c *batchv1.CronJob) { c.CreationTimestamp = metav1.NewTime(due.Add(-time.Second)) }))
		d, p := planJobs(time.Now(), s)
		c.applied(t.Context(), s, d, carriedOut(p.Steps), plan.Outcome{})
		c.applied(t.Context(), s, decision{}, plan.Outcome{}, plan.Outcome{})
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "cronjob_controller_job_creation_skew_duration_seconds" {
			t.Fatal(err, families)
		}
		h := families[0].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 1 || h.GetSampleSum() != 3 || len(h.GetBucket()) != 10 || h.GetBucket()[0].GetUpperBound() != 1 {
			t.Errorf("%v", h)
		}
	})
}
