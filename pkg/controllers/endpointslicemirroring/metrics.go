package endpointslicemirroring

import (
	"context"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (ESM-24). They count nothing until they are registered.
type collectors struct {
	*endpoints.SliceMetrics
	skipped  *metrics.HistogramVec
	duration *metrics.HistogramVec
}

// newCollectors makes the metrics. The function says whether Endpoints are still mirrored, so that those of
// others no longer count.
func newCollectors(exists func(plan.Key) bool) *collectors {
	const subsystem = "endpoint_slice_mirroring_controller"
	return &collectors{
		SliceMetrics: endpoints.NewSliceMetrics(subsystem, true, exists),
		skipped: endpoints.NewSizes(subsystem, "addresses_skipped_per_sync",
			"Addresses that a reconcile has not mirrored, because they are invalid or too many."),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "endpoints_sync_duration", Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
			StabilityLevel: metrics.ALPHA, Help: "How long a reconcile took, in seconds.",
		}, nil),
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable { return append(c.All(), c.skipped, c.duration) }

// applied counts what became of a plan.
func (c *collectors) applied(_ context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	c.duration.WithLabelValues().Observe(time.Since(s.Began).Seconds())
	skipped := skips{}
	if unwanted(s) == "" {
		_, skipped = mirror(s.Endpoints, s.Max)
	}
	c.skipped.WithLabelValues().Observe(float64(skipped.invalid + skipped.surplus))
	c.Applied(s.Key, mineOf(s), []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6},
		s.Max, did)
}
