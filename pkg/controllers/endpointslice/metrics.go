package endpointslice

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (EPS-62..67). They count nothing until they are registered.
type collectors struct {
	*endpoints.SliceMetrics
	changed  *metrics.HistogramVec
	syncs    *metrics.CounterVec
	services *metrics.GaugeVec

	exists func(plan.Key) bool // whether the service does
	mu     sync.Mutex          // guards known, and the gauge services
	known  map[plan.Key]string // the traffic distribution that is in effect, by service
}

// newCollectors makes the metrics. The function says whether a service exists, so that one that is gone does
// not count.
func newCollectors(exists func(plan.Key) bool) *collectors {
	const subsystem = "endpoint_slice_controller"
	return &collectors{
		SliceMetrics: endpoints.NewSliceMetrics(subsystem, false, exists),
		changed: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "endpointslices_changed_per_sync", Buckets: metrics.DefBuckets,
			StabilityLevel: metrics.ALPHA,
			Help:           "EndpointSlices that a reconcile has written.",
		}, []string{"topology", "traffic_distribution"}),
		syncs: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "syncs", StabilityLevel: metrics.ALPHA, Help: "Reconciles of Services.",
		}, []string{"result"}),
		services: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "services_count_by_traffic_distribution", StabilityLevel: metrics.ALPHA,
			Help: "Services whose trafficDistribution is in effect.",
		}, []string{"traffic_distribution"}),
		exists: exists, known: map[plan.Key]string{},
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return append(c.All(), c.changed, c.syncs, c.services)
}

// stale counts a reconcile that was put off because a cache lacks own writes.
func (c *collectors) stale(schema.GroupResource) { c.syncs.WithLabelValues("stale").Inc() }

// applied counts what became of a plan.
func (c *collectors) applied(_ context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	result := "success"
	switch {
	case errors.Is(did.Err, plan.ErrStale):
		result = "stale"
	case did.Err != nil || missesNodes(s):
		result = "error"
	}
	c.syncs.WithLabelValues(result).Inc()
	if s.Service.Spec.Selector == nil || s.Service.Spec.Type == corev1.ServiceTypeExternalName {
		c.forget(s.Key)
		return
	}
	var mine []*discoveryv1.EndpointSlice
	for _, o := range s.Slices {
		if ours(o) && o.DeletionTimestamp == nil {
			mine = append(mine, o)
		}
	}
	written := c.Applied(s.Key, mine, familiesOf(s.Service), s.Max, did)
	topology := "Disabled"
	if wantsTopology(s.Service.Annotations) {
		topology = "Auto"
	}
	distribution := distributionOf(s.Service)
	c.changed.WithLabelValues(topology, distribution).Observe(float64(written))
	c.distributed(s.Key, distribution)
}

// distributionOf returns the traffic distribution that is in effect, "" if there is none (EPS-67).
func distributionOf(service *corev1.Service) string {
	d := service.Spec.TrafficDistribution
	if d == nil || wantsTopology(service.Annotations) {
		return ""
	}
	switch *d {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
		corev1.ServiceTrafficDistributionPreferSameNode:
		return *d
	}
	return ""
}

// itself returns the key of a service that has changed, and forgets one that is gone.
func (c *collectors) itself(before, after plan.Object) []plan.Key {
	keys := c.Itself(before, after)
	if after == nil {
		c.distributed(keys[0], "")
	}
	return keys
}

// forget no longer counts a service that is gone.
func (c *collectors) forget(key plan.Key) {
	c.Forget(key)
	c.distributed(key, "")
}

// distributed counts a service by its traffic distribution, if it still exists.
func (c *collectors) distributed(key plan.Key, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to != "" && !c.exists(key) {
		to = ""
	}
	before := c.known[key]
	if before == to {
		return
	}
	if before != "" {
		c.services.WithLabelValues(before).Dec()
		delete(c.known, key)
	}
	if to != "" {
		c.services.WithLabelValues(to).Inc()
		c.known[key] = to
	}
}
