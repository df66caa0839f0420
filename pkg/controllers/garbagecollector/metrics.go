package garbagecollector

import "k8s.io/component-base/metrics"

// newSyncErrors counts rounds in which not all could be discovered or listed (GC-55). It counts nothing until it is
// registered.
func newSyncErrors() *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "garbagecollector_controller", Name: "resources_sync_error_total", StabilityLevel: metrics.ALPHA,
		Help: "Discoveries that found nothing, and changes of what is watched after which some resource was not " +
			"listed in time.",
	})
}
