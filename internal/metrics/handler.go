package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Handler serves all metrics of the process, as Prometheus text or OpenMetrics, whichever is asked for (MH-8).
func Handler() http.Handler { return serve(legacyregistry.DefaultGatherer) }

// SLIHandler serves the results of health checks and the start time of the process alone (MH-9, MH-30). It must be made
// before the first check is asked for: what is observed earlier is not counted.
func SLIHandler() http.Handler {
	registry := metrics.NewKubeRegistry()
	slis.Register(registry)
	return serve(registry)
}

// serve shows what can be shown, even if one collector fails.
func serve(from prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(from, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true,
	})
}
