package tainteviction

import (
	"context"
	"slices"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (TE-33, TE-34).
type collectors struct {
	deletions *metrics.Counter
	duration  *metrics.Histogram
}

func newCollectors() *collectors {
	const subsystem = "taint_eviction_controller"
	return &collectors{
		deletions: metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: "pod_deletions_total",
			StabilityLevel: metrics.ALPHA,
			Help:           "Pods that were deleted because they do not tolerate a taint of their node."}),
		duration: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem,
			Name: "pod_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
			Help:    "Seconds from when a pod was due until it was deleted."}),
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.deletions, c.duration}
}

// applied counts and logs deletions.
func (c *collectors) applied(ctx context.Context, s snapshot, d decision, did, _ plan.Outcome) {
	if d.Evict && slices.ContainsFunc(did.Results, deleted) {
		klog.FromContext(ctx).Info("Deleting pod", "pod", klog.KObj(s.Pod), "node", s.Pod.Spec.NodeName, "taint",
			d.Taint)
		c.deletions.Inc()
		c.duration.Observe(time.Since(d.Due).Seconds())
	}
}

// deleted reports whether a pod was deleted, or evicted, that was there (TE-33).
func deleted(r plan.Result) bool { return r.Verb == plan.Deleted && r.Err == nil && !r.Needless }
