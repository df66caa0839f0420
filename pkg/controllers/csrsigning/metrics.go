package csrsigning

import (
	"context"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// collectors are the metrics of this controller (CSR-51, CSR-53).
type collectors struct {
	results *metrics.CounterVec
	expiry  *gauge.Gauge
	queued  *gauge.Gauge
}

// newCollectors makes the metrics. What follows from files and queues is asked for when it is collected.
func newCollectors(authorities map[string]*authority, parts map[string]reconcile.Part) collectors {
	const subsystem = "certificate_signer"
	return collectors{
		results: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "requests_total", StabilityLevel: metrics.ALPHA,
			Help: "Approved requests for certificates, by their signer and what became of them: issued, failed (they " +
				"can never be signed) or error (the API server has refused the write).",
		}, []string{"signer", "result"}),
		expiry: gauge.OnCollect(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "ca_expiry_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Seconds until the certificate expires with which the signer signs; negative if it has expired.",
		}, []string{"signer"}, func(v *metrics.GaugeVec) {
			for name, a := range authorities { // whose files may change
				v.WithLabelValues(name).Set(time.Until(a.issuer().cert.NotAfter).Seconds())
			}
		}),
		queued: gauge.OnCollect(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "queue_depth", StabilityLevel: metrics.ALPHA,
			Help: "Requests for certificates that wait in the queue of the signer.",
		}, []string{"signer"}, func(v *metrics.GaugeVec) {
			for name, part := range parts {
				for _, s := range part.Statuses() {
					v.WithLabelValues(name).Set(float64(s.Queued))
				}
			}
		}),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.results, c.expiry, c.queued}
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
			klog.FromContext(ctx).Info("Gave up a request for a certificate", "csr", s.Request.Name, "signer",
				s.Request.Spec.SignerName, "reason", violation)
		}
		c.results.WithLabelValues(s.Request.Spec.SignerName, result).Inc()
	}
}
