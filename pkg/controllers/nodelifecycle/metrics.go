package nodelifecycle

import (
	"context"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const subsystem = "node_collector"

// collectors are the metrics of this controller (NL-60, NL-61).
type collectors struct {
	evictions               *metrics.CounterVec
	health, size, unhealthy *gauge.Gauge
}

// newCollectors makes the metrics. Those of zones are asked of the term when they are collected.
func newCollectors(k *caches) collectors {
	return collectors{
		evictions: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "evictions_total",
			StabilityLevel: metrics.STABLE,
			Help:           "Nodes that got a NoExecute taint at the rate of their zone."}, []string{"zone"}),
		health: k.gauge("zone_health", "The share of the nodes of the zone that are ready, in percent.",
			func(z sums) float64 {
				return 100 - 100*float64(z.Unready)/float64(max(1, z.Nodes))
			}),
		size: k.gauge("zone_size", "Nodes of the zone that count.",
			func(z sums) float64 { return float64(z.Nodes) }),
		unhealthy: k.gauge("unhealthy_nodes_in_zone", "Nodes of the zone that count and are not ready.",
			func(z sums) float64 { return float64(z.Unready) }),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.evictions, c.health, c.size, c.unhealthy}
}

// applied counts taints.
func (c collectors) applied(_ context.Context, s snapshot, d decision, did, _ plan.Outcome) {
	if s.Node == nil {
		return
	}
	c.evictions.WithLabelValues(s.Zone.Name) // from the first sight of the zone on
	if d.Tainted && done(did, s.Node.UID) {
		c.evictions.WithLabelValues(s.Zone.Name).Inc()
	}
}

// gauge returns one that has a value for each zone.
func (k *caches) gauge(name, help string, value func(sums) float64) *gauge.Gauge {
	opts := &metrics.GaugeOpts{Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help}
	return gauge.OnCollect(opts, []string{"zone"}, func(v *metrics.GaugeVec) {
		t, _ := k.term.Get()
		for name, members := range t.Zones {
			v.WithLabelValues(name).Set(value(members.sums))
		}
	})
}
