package endpoints

import (
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// SliceMetrics are those that both controllers of EndpointSlices have (EPS-62..64, ESM-24). They count nothing until
// they are registered.
type SliceMetrics struct {
	added, updated, removed *metrics.HistogramVec // updated may be nil
	gauges                  [3]*metrics.GaugeVec  // in the order of figures
	changes                 *metrics.CounterVec

	exists func(plan.Key) bool // whether the object of a key does
	mu     sync.Mutex          // guards known, and the gauges
	known  map[plan.Key]figures
}

// figures are what one key adds to the gauges: endpoints, slices, and the fewest slices that could hold them.
type figures [3]int

// NewSliceMetrics returns the metrics of a subsystem. Whether the object of a key still exists, exists says. Updated
// endpoints are counted only if updates is set.
func NewSliceMetrics(subsystem string, updates bool, exists func(plan.Key) bool) *SliceMetrics {
	gauge := func(name, help string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help,
			StabilityLevel: metrics.ALPHA}, nil)
	}
	m := &SliceMetrics{
		added:   NewSizes(subsystem, "endpoints_added_per_sync", "Endpoints that a reconcile has added."),
		removed: NewSizes(subsystem, "endpoints_removed_per_sync", "Endpoints that a reconcile has removed."),
		gauges: [3]*metrics.GaugeVec{
			gauge("endpoints_desired", "Endpoints in all EndpointSlices of the controller."),
			gauge("num_endpoint_slices", "EndpointSlices of the controller."),
			gauge("desired_endpoint_slices", "The fewest EndpointSlices that could hold the endpoints."),
		},
		changes: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "changes", Help: "EndpointSlices that were written.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"operation"}),
		exists: exists, known: map[plan.Key]figures{},
	}
	if updates {
		m.updated = NewSizes(subsystem, "endpoints_updated_per_sync", "Endpoints that a reconcile has changed.")
	}
	return m
}

// NewSizes returns a histogram of numbers of endpoints.
func NewSizes(subsystem, name, help string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help, Buckets: metrics.ExponentialBuckets(2, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, nil)
}

// All lists the metrics for a registry.
func (m *SliceMetrics) All() []metrics.Registerable {
	all := []metrics.Registerable{m.added, m.removed, m.gauges[0], m.gauges[1], m.gauges[2], m.changes}
	if m.updated != nil {
		all = append(all, m.updated)
	}
	return all
}

// Applied counts what became of the slices of a key, of which each holds so many endpoints at most. It returns how
// many slices were written.
func (m *SliceMetrics) Applied(
	key plan.Key, before []*discoveryv1.EndpointSlice, families []discoveryv1.AddressType, most int, did plan.Outcome,
) (written int) {
	operations := map[plan.Verb]string{plan.Created: "create", plan.Changed: "update", plan.Deleted: "delete"}
	for _, r := range did.Results {
		if r.Err == nil {
			written++
			m.changes.WithLabelValues(operations[r.Verb]).Inc()
		}
	}
	all := afterwards(before, did)
	for _, family := range families {
		m.countEndpoints(all, family)
	}
	m.set(key, figuresOf(all, most))
	return written
}

// pair is a slice before and after; nil for none.
type pair struct{ before, after *discoveryv1.EndpointSlice }

// afterwards returns the slices, and what became of them.
func afterwards(before []*discoveryv1.EndpointSlice, did plan.Outcome) (all []pair) {
	at := map[types.UID]int{}
	for _, o := range before {
		at[o.UID] = len(all)
		all = append(all, pair{o, o})
	}
	for _, r := range did.Results {
		o, ok := r.Object.(*discoveryv1.EndpointSlice)
		if !ok || r.Err != nil {
			continue
		}
		i, known := at[o.UID]
		switch {
		case r.Verb == plan.Created:
			all = append(all, pair{nil, o})
		case known && r.Verb == plan.Deleted:
			all[i].after = nil
		case known:
			all[i].after = o
		}
	}
	return all
}

// countEndpoints observes how many endpoints of a family have come, changed and gone.
func (m *SliceMetrics) countEndpoints(all []pair, family discoveryv1.AddressType) {
	was, is := map[string]*discoveryv1.Endpoint{}, map[string]*discoveryv1.Endpoint{}
	for _, p := range all {
		if p.before != p.after {
			noteEndpoints(was, p.before, family)
			noteEndpoints(is, p.after, family)
		}
	}
	added, updated := 0, 0
	for name, e := range is {
		switch before := was[name]; {
		case before == nil:
			added++
		case m.updated != nil && !equality.Semantic.DeepEqual(before, e):
			updated++
		}
	}
	m.added.WithLabelValues().Observe(float64(added))
	m.removed.WithLabelValues().Observe(float64(len(was) - len(is) + added))
	if m.updated != nil {
		m.updated.WithLabelValues().Observe(float64(updated))
	}
}

// noteEndpoints notes the endpoints of a slice, by what they stand for.
func noteEndpoints(
	names map[string]*discoveryv1.Endpoint, s *discoveryv1.EndpointSlice, family discoveryv1.AddressType,
) {
	if s == nil || s.AddressType != family {
		return
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		switch {
		case e.TargetRef != nil:
			names[e.TargetRef.Kind+"/"+e.TargetRef.Name] = e
		case len(e.Addresses) > 0:
			names[e.Addresses[0]] = e
		}
	}
}

// figuresOf sums up the slices of a key, those of all families (EPS-78).
func figuresOf(all []pair, most int) (f figures) {
	type list struct {
		family discoveryv1.AddressType
		ports  string
	}
	lists := map[list]int{}
	for _, p := range all {
		if o := p.after; o != nil {
			f[0] += len(o.Endpoints)
			f[1]++
			lists[list{o.AddressType, PortsText(o.Ports)}] += len(o.Endpoints)
		}
	}
	for _, n := range lists {
		f[2] += max(1, (n+most-1)/max(1, most))
	}
	return f
}

// set replaces what a key adds to the gauges. What is reported for an object that has gone meanwhile is forgotten at
// once.
func (m *SliceMetrics) set(key plan.Key, f figures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(key, f)
	if !m.exists(key) {
		m.replace(key, figures{})
	}
}

// Forget takes a key out of the gauges.
func (m *SliceMetrics) Forget(key plan.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(key, figures{})
}

// Itself returns the key of an object that has changed, and forgets one that is gone.
func (m *SliceMetrics) Itself(before, after plan.Object) []plan.Key {
	if after == nil {
		m.Forget(plan.KeyOf(before))
		return []plan.Key{plan.KeyOf(before)}
	}
	return []plan.Key{plan.KeyOf(after)}
}

// replace has the gauges count a key as it is now, in place of how it was. It is called under the lock.
func (m *SliceMetrics) replace(key plan.Key, f figures) {
	old := m.known[key]
	m.known[key] = f
	if f == (figures{}) {
		delete(m.known, key)
	}
	for i, g := range m.gauges {
		g.WithLabelValues().Add(float64(f[i] - old[i]))
	}
}
