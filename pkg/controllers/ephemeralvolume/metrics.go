package ephemeralvolume

import (
	"context"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (ST-26).
type collectors struct{ attempts, failures *metrics.Counter }

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() collectors {
	return collectors{
		attempts: metrics.NewCounter(&metrics.CounterOpts{
			Name: "ephemeral_volume_controller_create_total", StabilityLevel: metrics.ALPHA,
			Help: "PersistentVolumeClaims of ephemeral volumes that it was tried to create.",
		}),
		failures: metrics.NewCounter(&metrics.CounterOpts{
			Name: "ephemeral_volume_controller_create_failures_total", StabilityLevel: metrics.ALPHA,
			Help: "PersistentVolumeClaims of ephemeral volumes that could not be created.",
		}),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.attempts, c.failures}
}

// applied counts the creations of a reconcile.
func (c collectors) applied(_ context.Context, _ snapshot, _ decision, did, _ plan.Outcome) {
	for _, r := range did.Results {
		if c.attempts.Inc(); r.Err != nil {
			c.failures.Inc()
		}
	}
}
