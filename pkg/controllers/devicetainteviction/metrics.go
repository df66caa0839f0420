package devicetainteviction

import (
	"context"
	"slices"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (DTE-8).
type collectors struct {
	deletions *metrics.Counter
	duration  *metrics.Histogram
}

func newCollectors() *collectors {
	const subsystem = "device_taint_eviction_controller"
	return &collectors{
		deletions: metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: "pod_deletions_total",
			StabilityLevel: metrics.ALPHA, Help: "Pods that were deleted because of a taint of a device."}),
		duration: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem,
			Name: "pod_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
			Help:    "Seconds from when a pod was due for a taint of a device until it was deleted."}),
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.deletions, c.duration}
}

// applied counts and logs what was deleted, also by the rules for which it was.
func (k *caches) applied(c *collectors) func(context.Context, snapshot, decision, plan.Outcome, plan.Outcome) {
	return func(ctx context.Context, s snapshot, d decision, did, _ plan.Outcome) {
		if !slices.ContainsFunc(did.Results, deleted) {
			return
		}
		klog.FromContext(ctx).Info("Deleting pod", "pod", klog.KObj(s.Pod), "node", s.Pod.Spec.NodeName, "taint",
			d.Taint)
		c.deletions.Inc()
		c.duration.Observe(time.Since(d.Due).Seconds())
		k.term.Update(func(t term) term { return t.evicted(d.Rules) })
	}
}

// deleted reports whether a pod was deleted that was there.
func deleted(r plan.Result) bool { return r.Verb == plan.Deleted && r.Err == nil && !r.Needless }
