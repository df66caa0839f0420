package ttlafterfinished

import (
	"context"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller.
type collectors struct{ late *metrics.Histogram }

// newCollectors makes the metric. It counts nothing until it is registered.
func newCollectors() collectors {
	return collectors{late: metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds",
		StabilityLevel: metrics.ALPHA,
		Buckets:        metrics.ExponentialBuckets(0.1, 2, 14),
		Help:           "Time between the end of a finished Job's time to live and its deletion.",
	})}
}

// applied logs what was deleted, and what keeps a Job that cannot be, and measures how late deletions are.
func (c collectors) applied(ctx context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	if s.Job == nil || !candidate(s.Job) {
		return
	}
	at, ok := finishedAt(s.Job)
	if doubt := doubtful(time.Now(), s.Job); doubt != "" && !s.Logged {
		about := []any{"job", klog.KObj(s.Job)}
		if ok {
			about = append(about, "by", time.Until(at).String())
		}
		klog.FromContext(ctx).Info(doubt, about...)
	}
	for _, r := range did.Results {
		if r.Err != nil || r.Needless {
			continue
		}
		expires, _ := expiry(s.Job)
		c.late.Observe(time.Since(expires).Seconds())
		klog.FromContext(ctx).Info("Deleted a finished Job because its time to live is over",
			"job", klog.KObj(s.Job), "condition", workloads.JobFinished(s.Job).Type,
			"finished", at.UTC().Format(time.RFC3339), "ttlSecondsAfterFinished", *s.Job.Spec.TTLSecondsAfterFinished)
	}
}
