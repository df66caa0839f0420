package horizontalpodautoscaler

import (
	"context"
	"iter"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (HPA-62..64). They count nothing until they are registered.
type collectors struct {
	reconciled, computed *metrics.CounterVec
	took, computing      *metrics.HistogramVec
	desired              *metrics.GaugeVec
	lag                  *metrics.Histogram
	number               *metrics.Gauge
	stale                *metrics.CounterVec

	mu    sync.Mutex
	known map[plan.Key]bool
}

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() *collectors {
	const subsystem = "horizontal_pod_autoscaler_controller"
	buckets := metrics.ExponentialBuckets(0.001, 2, 15)
	counter := func(name, help string, labels ...string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name,
			StabilityLevel: metrics.ALPHA, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *metrics.HistogramVec {
		return metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help, Buckets: buckets}, labels)
	}
	return &collectors{
		reconciled: counter("reconciliations_total", "Evaluations of autoscalers.", "action", "error"),
		took: histogram("reconciliation_duration_seconds",
			"How long evaluations of autoscalers took, the write of the scale included.", "action", "error"),
		computed: counter("metric_computation_total", "Evaluations of single metrics.", "action", "error",
			"metric_type"),
		computing: histogram("metric_computation_duration_seconds", "How long it took to read single metrics.",
			"action", "error", "metric_type"),
		desired: metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: "desired_replicas",
			StabilityLevel: metrics.ALPHA,
			Help:           "The number of replicas that an autoscaler wants its target to have."},
			[]string{"namespace", "hpa_name"}),
		lag: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "evaluation_lag_seconds",
			StabilityLevel: metrics.ALPHA,
			Help:           "How much later than they were due autoscalers were evaluated.",
			Buckets:        metrics.ExponentialBuckets(0.001, 2, 17)}),
		number: metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers",
			StabilityLevel: metrics.ALPHA,
			Help:           "The number of autoscalers."}),
		stale: counter("stale_sync_skips_total",
			"Evaluations that were put off because the cache of the resource lacked own writes.", "group", "resource"),
		known: map[plan.Key]bool{},
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.reconciled, c.took, c.computed, c.computing, c.desired, c.lag, c.number, c.stale}
}

// countStale counts an evaluation that was put off because the cache of a resource lacks own writes.
func (c *collectors) countStale(r schema.GroupResource) {
	c.stale.WithLabelValues(r.Group, r.Resource).Inc()
}

// begin notes which autoscalers there are when a term begins. Those that went while this process did not lead are not
// among them.
func (c *collectors) begin(all iter.Seq[*autoscalingv2.HorizontalPodAutoscaler]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
	for h := range all { // with the lock, so that those that go now are taken away again
		c.known[plan.Key{Namespace: h.Namespace, Name: h.Name}] = true
	}
	c.number.Set(float64(len(c.known)))
}

// end forgets all autoscalers: another process may lead now.
func (c *collectors) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
	c.number.Set(0)
	c.desired.Reset()
}

// itself returns the key of an autoscaler, and notes that it has come or gone (HPA-68).
func (c *collectors) itself(before, after plan.Object) []plan.Key {
	keys := informers.Itself(before, after)
	if before != nil && after != nil {
		return keys
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if after != nil {
			c.known[key] = true
		} else {
			delete(c.known, key)
			c.desired.DeleteLabelValues(key.Namespace, key.Name)
		}
	}
	c.number.Set(float64(len(c.known)))
	return keys
}

// want notes the size that an autoscaler wants, unless it has been deleted while it was evaluated (HPA-68).
func (c *collectors) want(key plan.Key, replicas int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[key] {
		c.desired.WithLabelValues(key.Namespace, key.Name).Set(float64(replicas))
	}
}

// applied counts an evaluation, and logs what it has changed.
func (c *collectors) applied(ctx context.Context, s snapshot, d decision, did, _ plan.Outcome) {
	now := time.Now()
	failure := "none"
	switch {
	case s.Unparsable:
		failure = "spec"
	case d.Failed || did.Err != nil:
		failure = "internal"
	}
	done := "none"
	if d.Rescale && did.Err == nil {
		done = action(d.Desired, s.Target.Replicas)
	}
	c.reconciled.WithLabelValues(done, failure).Inc()
	c.took.WithLabelValues(done, failure).Observe(now.Sub(s.Began).Seconds())
	if !s.Due.IsZero() && !s.Began.Before(s.Due) {
		c.lag.Observe(s.Began.Sub(s.Due).Seconds())
	}
	if s.Target != nil && !d.Failed {
		c.want(plan.Key{Namespace: s.Autoscaler.Namespace, Name: s.Autoscaler.Name}, d.Desired)
	}
	c.count(s, d)
	if rescaled(did) {
		klog.FromContext(ctx).Info("Scaled the target of an autoscaler", "hpa", klog.KObj(s.Autoscaler), "target",
			s.Autoscaler.Spec.ScaleTargetRef.Name,
			"kind", s.Target.Kind.Kind, "from", s.Target.Replicas, "to", d.Desired, "reason", d.Reason)
	}
	if d.Failed {
		klog.FromContext(ctx).V(2).Info("An autoscaler cannot tell the size of its target", "hpa",
			klog.KObj(s.Autoscaler), "why", d.Why)
	}
}

// count counts the evaluations of metrics (HPA-63).
func (c *collectors) count(s snapshot, d decision) {
	for i, p := range d.Proposals {
		failure, done := "none", "none"
		if p.Err != nil {
			failure = "internal"
		} else {
			done = action(p.Replicas, s.Autoscaler.Status.CurrentReplicas)
		}
		kind := string(s.Autoscaler.Spec.Metrics[i].Type) // the status of a metric that fails has none
		c.computed.WithLabelValues(done, failure, kind).Inc()
		if i < len(s.Readings) {
			c.computing.WithLabelValues(done, failure, kind).Observe(s.Readings[i].Took.Seconds())
		}
	}
}

// action names a change of size.
func action(to, from int32) string {
	switch {
	case to > from:
		return "scale_up"
	case to < from:
		return "scale_down"
	}
	return "none"
}
