package nodelifecycle

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const subsystem = "node_collector"

// collectors are the metrics of this controller (NL-60, NL-61).
type collectors struct {
	evictions               *metrics.CounterVec
	health, size, unhealthy *zoneGauge
}

func newCollectors(k *caches) collectors {
	return collectors{
		evictions: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "evictions_total", StabilityLevel: metrics.STABLE,
			Help: "Nodes that got a NoExecute taint at the rate of their zone."}, []string{"zone"}),
		health: k.gauge("zone_health", "The share of the nodes of the zone that are ready, in percent.", func(z sums) float64 {
			return 100 - 100*float64(z.Unready)/float64(max(1, z.Nodes))
		}),
		size:      k.gauge("zone_size", "Nodes of the zone that count.", func(z sums) float64 { return float64(z.Nodes) }),
		unhealthy: k.gauge("unhealthy_nodes_in_zone", "Nodes of the zone that count and are not ready.", func(z sums) float64 { return float64(z.Unready) }),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.evictions, c.health, c.size, c.unhealthy}
}

// applied counts taints.
func (c collectors) applied(_ context.Context, s snapshot, d decision, did, _ plan.Outcome) {
	c.evictions.WithLabelValues(s.Zone.Name) // from the first sight of the zone on
	if d.Tainted && did.Err == nil {
		c.evictions.WithLabelValues(s.Zone.Name).Inc()
	}
}

// zoneGauge has a value for each zone, which is asked for when it is collected.
type zoneGauge struct {
	*metrics.GaugeVec
	caches *caches
	value  func(sums) float64
	mu     sync.Mutex // held while the values are set and read
}

func (k *caches) gauge(name, help string, value func(sums) float64) *zoneGauge {
	opts := &metrics.GaugeOpts{Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help}
	return &zoneGauge{GaugeVec: metrics.NewGaugeVec(opts, []string{"zone"}), caches: k, value: value}
}

// Collect implements prometheus.Collector.
func (g *zoneGauge) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Reset()
	t, _ := g.caches.term.Get()
	for name, members := range t.Zones {
		g.WithLabelValues(name).Set(g.value(members.sums))
	}
	g.GaugeVec.Collect(out)
}
