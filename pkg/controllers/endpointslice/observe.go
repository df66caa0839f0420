package endpointslice

import (
	"cmp"
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	services informers.ServiceCache
	pods     informers.LabeledPodCache
	onNodes  informers.NodePodCache // the same pods
	nodes    informers.NodeCache
	slices   informers.EndpointSliceCache
	most     int // endpoints in a slice
	large    int // pods from which on it is remembered of a service what its slices were compared with
}

// memory is what is remembered of a service from one reconcile to the next. Observe makes it, and remember
// keeps it, or what was remembered before if a write has failed.
type memory struct {
	// Times are what writes have shown, for the trigger time.
	Times   *endpoints.Times
	Hinted  bool     // it asked for topology hints
	Checked *checked // what its slices were compared with; nil if all must be compared again
	Before  *memory  // what is remembered if a write fails; nil for nothing, and in what was committed
}

// unchecked returns what is remembered besides what slices were compared with.
func (m *memory) unchecked() *memory {
	if m == nil {
		return nil
	}
	return &memory{Times: m.Times, Hinted: m.Hinted}
}

// remember remembers what was observed if all writes were carried out. After a failure all is compared again: to keep
// the changes until a write succeeds would take ever more memory while none does.
func remember(_ time.Time, _ snapshot, _ struct{}, seen *memory, did, _ plan.Outcome) (*memory, bool) {
	switch {
	case seen == nil:
		return nil, true
	case did.Err != nil:
		return seen.Before, true
	}
	after := *seen
	after.Before = nil
	return &after, true
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds the service, its pods with the zones of their nodes, and its slices.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (observation, error) {
	s := snapshot{Key: r.Key, Service: k.services.Get(r.Key.Namespace, r.Key.Name), Max: k.most}
	if s.Service == nil {
		return observation{}, nil
	}
	s.Slices = k.slices.Of(r.Key.Namespace, r.Key.Name)
	if s.Service.Spec.Selector == nil || s.Service.Spec.Type == corev1.ServiceTypeExternalName {
		m := r.Memory.unchecked()
		if m != nil {
			m.Before = r.Memory.unchecked()
		}
		return observation{Exists: true, Snapshot: s, Memory: m}, nil
	}
	m := &memory{Hinted: wantsTopology(s.Service.Annotations), Before: r.Memory.unchecked()}
	var before *checked
	if r.Memory != nil {
		before, s.Hinted = r.Memory.Checked, r.Memory.Hinted
	}
	n := endpoints.NewsOf(r.Changes, r.Missed)
	if !n.Few || !k.observeNews(&s, before, n.Names) {
		before = nil
		s.Pods = k.pods.Selected(r.Key.Namespace, s.Service.Spec.Selector)
		s.Zones = k.zones(s.Pods)
	}
	m.Times = endpoints.TimesOf(s.Service, s.Pods)
	if m.Hinted {
		s.CPU = cpuByZone(k.allNodes())
	}
	if r.Memory == nil {
		// Hints that are there before the first reconcile are taken for what the service asks for now.
		s.Trigger, s.Hinted = endpoints.EarliestChange(nil, m.Times), m.Hinted
	} else {
		s.Trigger = endpoints.EarliestChange(r.Memory.Times, m.Times)
	}
	if before != nil {
		m.Times = r.Memory.Times.With(m.Times, n.UIDs)
	}
	if !m.Hinted && (before != nil || len(s.Pods) >= k.large) {
		m.Checked = newChecked(s, before)
	}
	return observation{Exists: true, Snapshot: s, Memory: m}, nil
}

// observeNews finds the pods that must be looked at because they, or others in their slices, may have changed. It
// does nothing and returns false if all must be looked at.
func (k *caches) observeNews(s *snapshot, before *checked, changed map[string]bool) bool {
	if before == nil || before.Service != endpoints.VersionOf(s.Service) || wantsTopology(s.Service.Annotations) {
		return false
	}
	for node, zone := range before.Zones {
		if n := k.nodes.Get(node); n == nil || n.Labels[corev1.LabelTopologyZone] != zone {
			return false
		}
	}
	n, ok := before.news(changed, s.mine())
	if !ok {
		return false
	}
	s.Pods = k.pods.SelectedAmong(s.Key.Namespace, s.Service.Spec.Selector, maps.Keys(n.pods))
	s.Zones, s.Settled = k.zones(s.Pods), n.settled
	return true
}

// zones returns the zones of the nodes that pods are on.
func (k *caches) zones(pods []*corev1.Pod) map[string]string {
	zones, missing := map[string]string{}, map[string]bool{"": true}
	for _, p := range pods {
		name := p.Spec.NodeName
		if _, known := zones[name]; known || missing[name] {
			continue
		}
		if n := k.nodes.Get(name); n != nil {
			zones[name] = n.Labels[corev1.LabelTopologyZone]
		} else {
			missing[name] = true
		}
	}
	return zones
}

// allNodes returns the nodes that the cache has.
func (k *caches) allNodes() (nodes []*corev1.Node) {
	for _, name := range k.nodes.Names() {
		if n := k.nodes.Get(name); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// enqueuedByPod returns the services whose slices a pod's change may alter (EPS-14).
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	return endpoints.Enqueued(before, after, k.services.Selecting)
}

// enqueuedByNode returns the services of the pods on a node that has come or whose zone has changed, and all services
// with topology hints if the share of a zone may have changed (EPS-18, EPS-80).
func (k *caches) enqueuedByNode(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	seen := map[plan.Key]bool{}
	add := func(services ...*corev1.Service) {
		for _, s := range services {
			if key := (plan.Key{Namespace: s.Namespace, Name: s.Name}); !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	if movesPods(was, is) {
		for _, p := range k.onNodes.OnNode(is.Name) {
			add(k.services.Selecting(p.Namespace, p.Labels)...)
		}
	}
	if changesShares(was, is) {
		for s := range k.services.All() {
			if wantsTopology(s.Annotations) {
				add(s)
			}
		}
	}
	return keys
}

// enqueuedBySlice returns the service of a slice of another manager that has come or gone, if the service has no
// selector: then our slices may have been replaced (EPS-81).
func (k *caches) enqueuedBySlice(before, after plan.Object) []plan.Key {
	if before != nil && after != nil {
		return nil
	}
	o := cmp.Or(after, before)
	key, ok := endpoints.ServiceOfSlice(o)
	if s := k.services.Get(key.Namespace, key.Name); !ok || s == nil || s.Spec.Selector != nil {
		return nil
	}
	return []plan.Key{key}
}
