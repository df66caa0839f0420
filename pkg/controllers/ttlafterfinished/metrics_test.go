package ttlafterfinished

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A deletion is measured from the end of the time to live; one that failed or found nothing to delete is not.
func TestDeletionMetric(t *testing.T) { // TTL-32
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(epoch))
		c, registry := newCollectors(), metrics.NewKubeRegistry()
		registry.MustRegister(c.late)
		s := snapshot{Job: done(63 * time.Second)}
		for _, r := range []plan.Result{{Verb: plan.Deleted}, {Verb: plan.Deleted, Needless: true},
			{Verb: plan.Deleted, Err: errors.New("no")}} {
			r.Object = s.Job
			c.applied(t.Context(), s, struct{}{}, plan.Outcome{Results: []plan.Result{r}}, plan.Outcome{})
		}
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "ttl_after_finished_controller_job_deletion_duration_seconds" {
			t.Fatal(err, families)
		}
		h := families[0].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 1 || h.GetSampleSum() != 3 || len(h.GetBucket()) != 14 || h.GetBucket()[0].GetUpperBound() != 0.1 {
			t.Errorf("%v", h)
		}
	})
}
