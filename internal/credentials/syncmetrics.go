package credentials

import (
	"errors"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
)

// SyncMetrics are the metrics of a controller that publishes certificate authorities (RCA-9, CTB-5). They count nothing
// until they are registered.
type SyncMetrics struct {
	syncs    *metrics.CounterVec
	duration *metrics.HistogramVec
}

// NewSyncMetrics makes the metrics of a subsystem. The reconciles are those of what is named.
func NewSyncMetrics(subsystem, of string) SyncMetrics {
	labels := []string{"code"}
	return SyncMetrics{
		syncs: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "sync_total", StabilityLevel: metrics.ALPHA,
			Help: "Reconciles of " + of + ", by the HTTP status code of what they wrote.",
		}, labels),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "sync_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Seconds that reconciles of " + of + " took, by the HTTP status code of what they wrote.",
			Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
}

// All lists the metrics for a registry.
func (m SyncMetrics) All() []metrics.Registerable {
	return []metrics.Registerable{m.syncs, m.duration}
}

// Count counts a reconcile that has begun at a time, and what stopped it.
func (m SyncMetrics) Count(began time.Time, err error) {
	code := codeOf(err)
	m.syncs.WithLabelValues(code).Inc()
	m.duration.WithLabelValues(code).Observe(time.Since(began).Seconds())
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
