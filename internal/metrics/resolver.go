package metrics

import (
	"context"
	"sync"
	"time"

	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/component-base/metrics"
)

// resolverLatency reports how long it takes to find the addresses of API servers and of what else clients ask
// (MEND-36). In the release of component-base that we use it is measured and not registered.
type resolverLatency struct{ seconds *metrics.HistogramVec }

var resolverOnce sync.Once

// measureResolver registers the metric. No client may have been made before.
func measureResolver() {
	resolverOnce.Do(func() {
		clientmetrics.ResolverLatency = resolverLatency{register(metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "rest_client_dns_resolution_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "How long it takes to find the addresses of a host.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30},
		}, []string{"host"}))}
	})
}

// Observe implements clientmetrics.ResolverLatencyMetric.
func (l resolverLatency) Observe(ctx context.Context, host string, latency time.Duration) {
	l.seconds.WithContext(ctx).WithLabelValues(host).Observe(latency.Seconds())
}
