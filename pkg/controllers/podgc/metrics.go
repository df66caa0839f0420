package podgc

import "k8s.io/component-base/metrics"

// collectors are the metrics of this controller. They count nothing until they are registered.
type collectors struct {
	deletions *metrics.CounterVec
	errors    *metrics.CounterVec
	brake     *metrics.Gauge
}

func newCollectors() collectors {
	const subsystem = "pod_gc_collector"
	labels := []string{"namespace", "reason"}
	return collectors{
		deletions: metrics.NewCounterVec(&metrics.CounterOpts{ // PGC-20
			Subsystem: subsystem, Name: "force_delete_pods_total", StabilityLevel: metrics.STABLE,
			Help: "Pods whose forceful deletion was tried.",
		}, labels),
		errors: metrics.NewCounterVec(&metrics.CounterOpts{ // PGC-21
			Subsystem: subsystem, Name: "force_delete_pod_errors_total", StabilityLevel: metrics.STABLE,
			Help: "Pods whose forceful deletion has failed.",
		}, labels),
		brake: metrics.NewGauge(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "orphan_brake", StabilityLevel: metrics.ALPHA,
			Help: "1 while the deletion of orphaned pods waits because too many nodes have vanished or the cache of nodes is not proved fresh, 0 otherwise.",
		}),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.deletions, c.errors, c.brake}
}
