package rootcacertpublisher

import (
	"context"
	"errors"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (RCA-9). They count nothing until they are registered.
type collectors struct {
	syncs    *metrics.CounterVec
	duration *metrics.HistogramVec
}

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() collectors {
	const subsystem = "root_ca_cert_publisher"
	labels := []string{"code"}
	return collectors{
		syncs: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "sync_total", StabilityLevel: metrics.ALPHA,
			Help: "Reconciles of namespaces, by the HTTP status code of what they wrote.",
		}, labels),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "sync_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Seconds that reconciles of namespaces took, by the HTTP status code of what they wrote.",
			Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.syncs, c.duration}
}

// applied counts a reconcile.
func (c collectors) applied(_ context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	code := codeOf(did.Err)
	c.syncs.WithLabelValues(code).Inc()
	c.duration.WithLabelValues(code).Observe(time.Since(s.Began).Seconds())
}

// codeOf is the status code of an answer of the server, 200 if there was nothing to do, and 500 if there was no answer.
func codeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "200"
	case errors.As(err, &status) && status.Status().Code > 0:
		return strconv.Itoa(int(status.Status().Code))
	}
	return "500"
}
