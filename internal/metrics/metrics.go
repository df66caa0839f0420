package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers what client-go measures (MH-20..28, MH-35)

	"github.com/standalone-kcm/controller-manager/internal/history"
	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Metrics are the metrics of the runtime. They are registered, so there is one set of them in a process: all values of
// New share it. They obey the flags about metrics (CLI-47), which must have been applied before.
type Metrics struct {
	duration *metrics.HistogramVec
	results  *metrics.CounterVec
	retries  *metrics.CounterVec
	writes   *metrics.CounterVec
	stale    *metrics.CounterVec
	compared *metrics.CounterVec
	history  *metrics.CounterVec
	gauges   []*managed
}

// New registers the metrics, unless they are, and reports the version of this build in kubernetes_build_info (MH-32).
func New(build version.Info) *Metrics {
	measureResolver()
	register(metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "kubernetes_build_info", StabilityLevel: metrics.BETA,
		Help: "1, with the version of Kubernetes that this build takes the place of, and how it was built.",
	},
		[]string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version",
			"compiler", "platform"})).
		WithLabelValues(build.Major, build.Minor, build.GitVersion, build.GitCommit, build.GitTreeState,
			build.BuildDate,
			build.GoVersion, build.Compiler, build.Platform).Set(1)
	m := &Metrics{
		duration: register(metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "controller_manager_reconcile_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "How long one reconcile of a key took: observe, plan, write, report.",
			Buckets: []float64{.0001, .001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"controller"})),
		results: counter("controller_manager_reconciles_total",
			"Reconciles of keys, by what became of them: wrote, unchanged (nothing was to be written), waiting (the "+
				"cache lacked own writes), error or panic.",
			"controller", "result"),
		retries: counter("controller_manager_reconcile_retries_total",
			"Reconciles that failed and are repeated.", "controller"),
		writes: counter("controller_manager_writes_total",
			"Requests that write, without those for events and leases, by the code of the answer; <error> if there "+
				"was none.",
			"controller", "verb", "resource", "code"),
		stale: counter("controller_manager_stale_sync_skips_total",
			"Reconciles that were put off because the cache of the resource lacked own writes.",
			"controller", "group", "resource"),
		compared: counter("controller_manager_plans_compared_total",
			"Writes that an observer has planned, by what became of them: agreed, superseded, hindered, unseen, "+
				"explained or unexplained. See /debug/agreement.",
			"controller", "verdict"),
		history: counter("controller_manager_history_entries_total",
			"Entries of the history, by what they are about, and by what became of them: written or lost.",
			"verb", "result"),
	}
	caught := counter("controller_manager_panics_total",
		"Panics over one object that was then left out, by what panicked: an event handler, an index function or a "+
			"transform of a cache.", "place")
	for _, place := range panics.Places() {
		caught.WithLabelValues(string(place))
	}
	panics.Observe(func(where panics.Place) { caught.WithLabelValues(string(where)).Inc() })
	for _, g := range newGauges() {
		m.gauges = append(m.gauges, register(g))
	}
	return m
}

// counter registers a counter.
func counter(name, help string, labels ...string) *metrics.CounterVec {
	return register(metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA},
		labels))
}

// register adds a metric to the global registry, and returns it, or the like one that was added before.
func register[M metrics.Registerable](m M) M {
	var before prometheus.AlreadyRegisteredError
	if errors.As(legacyregistry.Register(m), &before) {
		if like, ok := before.ExistingCollector.(M); ok {
			return like
		}
	}
	return m
}

// Hooks is that of [manager.Options]: it returns the hooks that are called with what a controller does. All series that
// are sure to come are there from now on, with zero.
func (m *Metrics) Hooks(controller string) reconcile.Hooks {
	duration, retries := m.duration.WithLabelValues(controller), m.retries.WithLabelValues(controller)
	results := map[reconcile.Result]metrics.CounterMetric{}
	for _, result := range reconcile.Results() {
		results[result] = m.results.WithLabelValues(controller, string(result))
	}
	return reconcile.Hooks{
		Reconciled: func(result reconcile.Result, took time.Duration) {
			duration.Observe(took.Seconds())
			results[result].Inc()
		},
		Retry: retries.Inc,
		Write: func(verb, resource, code string) { m.writes.WithLabelValues(controller, verb, resource, code).Inc() },
		Stale: func(r schema.GroupResource) {
			m.stale.WithLabelValues(controller, r.Group, r.Resource).Inc()
		},
	}
}

// Compared counts what became of writes that an observer has planned.
func (m *Metrics) Compared(controller, verdict string, n int) {
	m.compared.WithLabelValues(controller, verdict).Add(float64(n))
}

// History is what counts the entries of a history.
func (m *Metrics) History(verb history.Verb, result string, n int) {
	m.history.WithLabelValues(string(verb), result).Add(float64(n))
}

// Register is the RegisterMetrics of [manager.Options]. Of two managers in one process, the controllers' own metrics
// are those of the first.
func (m *Metrics) Register(own ...metrics.Registerable) (unregister func()) {
	var registered []metrics.Registerable
	for _, one := range own {
		if legacyregistry.Register(one) == nil {
			registered = append(registered, one)
		}
	}
	return func() {
		for _, one := range registered {
			legacyregistry.Registerer().Unregister(one)
		}
	}
}

// Follow shows how the controllers and caches of a manager do, from now on until stop is called.
func (m *Metrics) Follow(source *manager.Manager) (stop func()) {
	for _, g := range m.gauges {
		g.follow(source)
	}
	return func() {
		for _, g := range m.gauges {
			g.unfollow(source)
		}
	}
}
