package metrics

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Handler serves all metrics of the process, as Prometheus text or OpenMetrics, whichever is asked for (MH-8).
func Handler() http.Handler { return serve(prometheus.GathererFunc(gather)) }

// gather returns all metrics but the version of a cache that has read nothing yet, which client-go gives as 0
// (MEND-36).
func gather() ([]*dto.MetricFamily, error) {
	all, err := legacyregistry.DefaultGatherer.Gather()
	at := slices.IndexFunc(all,
		func(f *dto.MetricFamily) bool { return f.GetName() == "informer_store_resource_version" })
	if at < 0 {
		return all, err
	}
	all[at].Metric = slices.DeleteFunc(all[at].GetMetric(),
		func(m *dto.Metric) bool { return m.GetGauge().GetValue() == 0 })
	if len(all[at].GetMetric()) == 0 {
		all = slices.Delete(all, at, at+1)
	}
	return all, err
}

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
