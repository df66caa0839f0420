package cronjob

import (
	"context"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller.
type collectors struct{ skew *metrics.Histogram }

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() collectors {
	return collectors{skew: metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", StabilityLevel: metrics.STABLE,
		Buckets: metrics.ExponentialBuckets(1, 2, 10),
		Help:    "Time between when a Job of a CronJob was scheduled to be created and when it was created.",
	})}
}

// applied measures how late Jobs were created.
func (c collectors) applied(_ context.Context, s snapshot, _ decision, did, _ plan.Outcome) {
	if job := createdJob(did); job != nil {
		if at, ok := scheduledTime(s.CronJob, job); ok {
			c.skew.Observe(time.Since(at).Seconds())
		}
	}
}
