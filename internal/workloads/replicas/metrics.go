package replicas

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Metrics are the metrics of the controller's own (MH-29). Their zero value counts nothing.
type Metrics struct {
	stale       *metrics.CounterVec
	deletionAge *metrics.Histogram
}

// NewMetrics returns the metrics of ReplicaSets.
func NewMetrics() Metrics {
	return Metrics{
		stale: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "replicaset_controller_stale_sync_skips_total", StabilityLevel: metrics.ALPHA,
			Help: "Reconciles of a ReplicaSet that were put off because the cache of the resource lacked own writes.",
		}, []string{"group", "resource"}),
		deletionAge: metrics.NewHistogram(&metrics.HistogramOpts{
			Name: "replicaset_controller_sorting_deletion_age_ratio", StabilityLevel: metrics.ALPHA,
			Help:    "How many times as old as the youngest ready pod of its ReplicaSet a deleted ready pod was.",
			Buckets: []float64{0.25, 0.5, 1, 2, 4, 8},
		}),
	}
}

// Register has the metrics served. The series that are sure to come are there from then on, with zero.
func (m Metrics) Register(register func(...metrics.Registerable)) {
	register(m.stale, m.deletionAge)
	m.stale.WithLabelValues("", "pods")
	m.stale.WithLabelValues("apps", "replicasets")
}

// countStale counts a reconcile that was put off because the cache of a resource lacks own writes.
func (m Metrics) countStale(r schema.GroupResource) {
	if m.stale != nil {
		m.stale.WithLabelValues(r.Group, r.Resource).Inc()
	}
}

// observeDeletions observes the ages of deleted pods.
func (m Metrics) observeDeletions(_ context.Context, s snapshot, d owned, did, _ plan.Outcome) {
	if m.deletionAge == nil {
		return
	}
	for _, ratio := range deletionAgeRatios(time.Now(), view{s, d}, did) {
		m.deletionAge.Observe(ratio)
	}
}
