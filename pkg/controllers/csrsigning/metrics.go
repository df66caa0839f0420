package csrsigning

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// collectors are the metrics of this controller (CSR-51, CSR-53).
type collectors struct {
	results *metrics.CounterVec
	expiry  *expiry
	queued  *queued
}

func newCollectors(authorities map[string]*authority) collectors {
	const subsystem = "certificate_signer"
	return collectors{
		results: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "requests_total", StabilityLevel: metrics.ALPHA,
			Help: "Approved requests for certificates, by their signer and what became of them: issued, failed (they can never be signed) or error (the API server has refused the write).",
		}, []string{"signer", "result"}),
		expiry: &expiry{authorities: authorities, GaugeVec: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "ca_expiry_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Seconds until the certificate expires with which the signer signs; negative if it has expired.",
		}, []string{"signer"})},
		queued: &queued{parts: map[string]reconcile.Part{}, GaugeVec: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "queue_depth", StabilityLevel: metrics.ALPHA,
			Help: "Requests for certificates that wait in the queue of the signer.",
		}, []string{"signer"})},
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.results, c.expiry, c.queued}
}

// expiry is asked for when it is collected, because time passes and the files may change.
type expiry struct {
	*metrics.GaugeVec
	authorities map[string]*authority
}

// Collect implements prometheus.Collector.
func (e *expiry) Collect(out chan<- prometheus.Metric) {
	for name, a := range e.authorities {
		e.WithLabelValues(name).Set(time.Until(a.issuer().cert.NotAfter).Seconds())
	}
	e.GaugeVec.Collect(out)
}

// queued is asked for when it is collected, too.
type queued struct {
	*metrics.GaugeVec
	parts map[string]reconcile.Part // by signer
}

// Collect implements prometheus.Collector.
func (q *queued) Collect(out chan<- prometheus.Metric) {
	for name, part := range q.parts {
		for _, s := range part.Statuses() {
			q.WithLabelValues(name).Set(float64(s.Queued))
		}
	}
	q.GaugeVec.Collect(out)
}

// applied counts what became of a request, and logs one that is given up.
func (c collectors) applied(ctx context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	for _, r := range did.Results {
		result := "issued"
		switch _, violation := read(s.Request); {
		case r.Err != nil:
			result = "error"
		case violation != "":
			result = "failed"
			klog.FromContext(ctx).Info("Gave up a request for a certificate", "csr", s.Request.Name, "signer", s.Request.Spec.SignerName, "reason", violation)
		}
		c.results.WithLabelValues(s.Request.Spec.SignerName, result).Inc()
	}
}
