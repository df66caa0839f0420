package daemonset

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
)

// collectors are the metrics of the controller's own (DS-91).
type collectors struct{ stale *metrics.CounterVec }

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() collectors {
	return collectors{metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "daemonset_controller_stale_sync_skips_total", StabilityLevel: metrics.ALPHA,
		Help: "Reconciles of a DaemonSet that were put off because the cache of the resource lacked own writes.",
	}, []string{"group", "resource"})}
}

// register has the metrics served. The series that are sure to come are there from then on, with zero.
func (c collectors) register(register func(...metrics.Registerable)) {
	register(c.stale)
	c.stale.WithLabelValues("", "pods")
	c.stale.WithLabelValues("apps", "daemonsets")
}

// countStale counts a reconcile that was put off because the cache of a resource lacks own writes.
func (c collectors) countStale(r schema.GroupResource) {
	c.stale.WithLabelValues(r.Group, r.Resource).Inc()
}
