package statefulset

import (
	"cmp"
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// collectors are the metrics of this controller.
type collectors struct {
	stale *metrics.CounterVec
	// Only if maxUnavailable has an effect (STS-80).
	maxUnavailable, unavailable *metrics.GaugeVec
	exists                      func(*appsv1.StatefulSet) bool
}

// newCollectors returns the metrics. A set may be gone when its reconcile ends: then it gets no gauges that would
// stay for ever.
func newCollectors(maxUnavailable bool, exists func(*appsv1.StatefulSet) bool) collectors {
	c := collectors{
		exists: exists,
		stale: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "statefulset_controller_stale_sync_skips_total", StabilityLevel: metrics.ALPHA,
			Help: "Reconciles of a StatefulSet that were put off because the cache of the resource lacked own writes.",
		}, []string{"group", "resource"}),
	}
	if maxUnavailable {
		labels := []string{"statefulset_namespace", "statefulset_name", "pod_management_policy"}
		c.maxUnavailable = metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "statefulset_controller_statefulset_max_unavailable", StabilityLevel: metrics.ALPHA,
			Help: "Pods of a StatefulSet that may be unavailable during an update.",
		}, labels)
		c.unavailable = metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "statefulset_controller_statefulset_unavailable_replicas", StabilityLevel: metrics.ALPHA,
			Help: "Pods of a StatefulSet that are missing, being deleted or not available.",
		}, labels)
	}
	return c
}

// register has the metrics served. The series that are sure to come are there from then on, with zero.
func (c collectors) register(register func(...metrics.Registerable)) {
	register(c.stale)
	c.stale.WithLabelValues("", "pods")
	c.stale.WithLabelValues("apps", "statefulsets")
	if c.maxUnavailable != nil {
		register(c.maxUnavailable, c.unavailable)
	}
}

// countStale counts a reconcile that was put off because the cache of a resource lacks own writes.
func (c collectors) countStale(r schema.GroupResource) {
	c.stale.WithLabelValues(r.Group, r.Resource).Inc()
}

// applied sets the gauges of a set.
func (c collectors) applied(_ context.Context, s snapshot, d decision, _, _ plan.Outcome) {
	if c.maxUnavailable == nil || !c.exists(s.Set) {
		return
	}
	if r := resume(time.Now(), s, d); r.invalid == nil {
		c.maxUnavailable.WithLabelValues(labelsOf(s.Set)...).Set(float64(r.maxUnavailable()))
		c.unavailable.WithLabelValues(labelsOf(s.Set)...).Set(float64(r.unavailableFrom(start(r.Set))))
	}
}

// term is the runner of the controller. It ends each term as leader without the gauges: the next leader has them.
type term struct {
	reconcile.Part
	own collectors
}

// Run implements manager.Runner.
func (t term) Run(ctx context.Context) error {
	defer t.own.reset()
	return t.Part.Run(ctx)
}

// reset removes the gauges of all sets.
func (c collectors) reset() {
	if c.maxUnavailable != nil {
		c.maxUnavailable.Reset()
		c.unavailable.Reset()
	}
}

// enqueues returns the key of the set that has changed. The gauges of one that is gone are removed (STS-105).
func (c collectors) enqueues(before, after plan.Object) []plan.Key {
	if set, ok := before.(*appsv1.StatefulSet); ok && after == nil && c.maxUnavailable != nil {
		c.maxUnavailable.DeleteLabelValues(labelsOf(set)...)
		c.unavailable.DeleteLabelValues(labelsOf(set)...)
	}
	return informers.Itself(before, after)
}

// labelsOf are the labels of the gauges of a set.
func labelsOf(set *appsv1.StatefulSet) []string {
	return []string{set.Namespace, set.Name,
		string(cmp.Or(set.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement))}
}
