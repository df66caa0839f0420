package resourcepoolstatusrequest

import (
	"context"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (RPS-11).
type collectors struct {
	answers, errors *metrics.CounterVec
	duration        *metrics.HistogramVec
}

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() collectors {
	const subsystem = "resourcepoolstatusrequest_controller"
	labels := []string{"driver_name"}
	counter := func(name, help string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help,
			StabilityLevel: metrics.ALPHA}, labels)
	}
	return collectors{
		answers: counter("requests_processed_total", "ResourcePoolStatusRequests that were answered."),
		errors: counter("request_processing_errors_total",
			"Answers to ResourcePoolStatusRequests that could not be written."),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem,
			Name: "request_processing_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Seconds from when ResourcePoolStatusRequests were seen until they were answered.",
			Buckets: metrics.ExponentialBuckets(0.001, 2, 15)}, labels),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.answers, c.errors, c.duration}
}

// applied counts an answer. Drivers without pools have no label of their own: users may think them up.
func (c collectors) applied(_ context.Context, s snapshot, d decision, _, reported plan.Outcome) {
	if d == nil || len(reported.Results) == 0 {
		return
	}
	driver := ""
	if len(s.Slices) > 0 {
		driver = s.Request.Spec.Driver
	}
	if reported.Err != nil {
		c.errors.WithLabelValues(driver).Inc()
		return
	}
	c.answers.WithLabelValues(driver).Inc()
	c.duration.WithLabelValues(driver).Observe(time.Since(s.Since).Seconds())
}
