package nodeipam

import (
	"context"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (IPAM-52..55).
type collectors struct {
	allocations, releases *metrics.CounterVec
	most, usage           *metrics.GaugeVec
	tries                 *metrics.HistogramVec
	waiting, wrong        *metrics.Gauge

	allocated []float64 // of each pool, when last counted
}

// newCollectors makes the metrics for these pools. They count nothing until they are registered.
func newCollectors(pools []pool) *collectors {
	const subsystem = "node_ipam_controller"
	labels := []string{"clusterCIDR"}
	c := &collectors{
		allocated: make([]float64, len(pools)),
		allocations: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem,
			Name: "cidrset_cidrs_allocations_total", StabilityLevel: metrics.ALPHA,
			Help: "Ranges of nodes that were taken, those that were found and those of Services included."}, labels),
		releases: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "cidrset_cidrs_releases_total",
			StabilityLevel: metrics.ALPHA,
			Help:           "Ranges of nodes that were given back."}, labels),
		most: metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: "cirdset_max_cidrs",
			StabilityLevel: metrics.ALPHA,
			Help:           "Ranges of nodes that there are."}, labels),
		usage: metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: "cidrset_usage_cidrs",
			StabilityLevel: metrics.ALPHA,
			Help:           "The share of the ranges of nodes that is taken, from 0 to 1."}, labels),
		tries: metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem,
			Name: "cidrset_allocation_tries_per_request", StabilityLevel: metrics.ALPHA,
			Buckets: metrics.ExponentialBuckets(1, 5, 5),
			Help:    "Ranges that were taken already, and were passed over to find one for a node."}, labels),
		waiting: metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: "nodes_waiting",
			StabilityLevel: metrics.ALPHA,
			Help:           "Nodes that get no range, because none is left."}),
		wrong: metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: "nodes_with_wrong_ranges",
			StabilityLevel: metrics.ALPHA,
			Help: "Nodes whose ranges are not in --cluster-cidr, or have addresses in common with those of " +
				"another node."}),
	}
	return c
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.allocations, c.releases, c.most, c.usage, c.tries, c.waiting, c.wrong}
}

// applied counts what is taken. There is one worker.
func (c *collectors) applied(_ context.Context, s snapshot, d decision, _, _ plan.Outcome) {
	for i, p := range s.Pools {
		label, allocated, all := p.Range.String(), d.Allocated[i].count(), float64(p.last())+1
		c.most.WithLabelValues(label).Set(all)
		c.usage.WithLabelValues(label).Set(allocated / all)
		given := float64(len(d.Skipped[i]))
		c.allocations.WithLabelValues(label).Add(max(given, allocated-c.allocated[i]))
		c.releases.WithLabelValues(label).Add(max(0, c.allocated[i]+given-allocated))
		c.allocated[i] = allocated
		for _, n := range d.Skipped[i] {
			c.tries.WithLabelValues(label).Observe(float64(n))
		}
	}
	c.waiting.Set(float64(d.Waiting))
	c.wrong.Set(float64(d.Wrong))
}
