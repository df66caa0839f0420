package gauge

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
)

// Gauge is a gauge with labels whose series are computed at each scrape.
type Gauge struct {
	*metrics.GaugeVec
	fill func(*metrics.GaugeVec)
	mu   sync.Mutex // held while the values are set and read
}

// OnCollect returns a gauge that a function fills at each scrape. The function gets it without series.
func OnCollect(opts *metrics.GaugeOpts, labels []string, fill func(*metrics.GaugeVec)) *Gauge {
	return &Gauge{GaugeVec: metrics.NewGaugeVec(opts, labels), fill: fill}
}

// Sum returns a gauge of what a function adds up at each scrape.
func Sum(subsystem, name, help string, labels []string, each func(add func(n float64, labels ...string))) *Gauge {
	opts := &metrics.GaugeOpts{Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help}
	return OnCollect(opts, labels, func(v *metrics.GaugeVec) {
		each(func(n float64, labels ...string) { v.WithLabelValues(labels...).Add(n) })
	})
}

// Collect implements prometheus.Collector.
func (g *Gauge) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Reset()
	g.fill(g.GaugeVec)
	g.GaugeVec.Collect(out)
}
