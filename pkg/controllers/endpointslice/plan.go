package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// managedBy is the label by which the controller knows its slices.
const managedBy = "endpointslice-controller.k8s.io"

// snapshot is what one reconcile of a service has observed. Observe fills it; planSlices and the metrics read
// it. The objects belong to shared caches.
type snapshot struct {
	Key     plan.Key
	Service *corev1.Service // nil: there is none
	Pods    []*corev1.Pod   // those that the service selects, but for pods that only settled slices have
	// of the nodes that the pods are on; "" for a node without zone, no entry for one that does not exist
	Zones map[string]string
	// of the zones, in millicores, for a service with topology hints; nil if they do not suffice (EPS-51)
	CPU     map[string]int64
	Slices  []*discoveryv1.EndpointSlice // of the service, whoever manages them
	Settled map[types.UID]bool           // slices of which it is known that they show their pods as they should
	// when the first change that no write has reported took place (EPS-23); zero if there is none
	Trigger time.Time
	Max     int  // endpoints in a slice
	Hinted  bool // the service asked for topology hints when it was last reconciled, as far as is known
}

// planSlices decides what the service's slices must be (EPS-20..58).
func planSlices(_ time.Time, s snapshot) plan.Plan {
	switch {
	case s.Service == nil: // EPS-19: what is left is the garbage collector's
		return plan.Plan{}
	case s.Service.Spec.Type == corev1.ServiceTypeExternalName:
		return plan.Plan{Why: "left alone: the service is of type ExternalName"}
	case s.Service.Spec.Selector == nil:
		return planUnused(s)
	}
	sorted, m := sortSlices(s), membersOf(s)
	p := plan.Plan{}
	var each plan.Each
	var families []string
	for _, family := range familiesOf(s.Service) {
		f := reconcileFamily(s, m, family, sorted.ours[family])
		delete(sorted.ours, family)
		if steps := f.changes.Steps(s.Service, eventsOf(s.Service), f.why()); len(steps) > 0 {
			each.Sequences = append(each.Sequences, steps)
		}
		for _, e := range f.events {
			p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Service, Event: e})
		}
		families = append(families, f.String())
	}
	if len(each.Sequences) > 0 {
		p.Steps = append(p.Steps, each)
	}
	for _, family := range slices.Sorted(maps.Keys(sorted.ours)) {
		p.Steps = append(p.Steps, endpoints.DeleteSlices(sorted.ours[family], s.Service, eventsOf(s.Service),
			"the service does not have this address family")...)
	}
	why := "it belongs to an older service of this name"
	p.Steps = append(p.Steps, endpoints.DeleteSlices(sorted.orphans, s.Service, eventsOf(s.Service), why)...)
	p.Why = "up to date: "
	if len(p.Steps) > 0 {
		p.Why = "change: "
	}
	p.Why += strings.Join(families, "; ")
	if len(m.homeless) > 0 {
		p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Service, Event: nodeNotFound(s.Service, m.homeless)})
	}
	return p
}

// planUnused is for services without selector, whose slices are not ours to keep (EPS-20). They go when the service
// has mirrored ones: its Endpoints have all that it needs, and nobody keeps ours (EPS-81). A slice that a user has
// made may be meant to stand beside ours.
func planUnused(s snapshot) plan.Plan {
	p := plan.Plan{Why: "left alone: the service has no selector"}
	if !slices.ContainsFunc(s.Slices, mirrored) {
		return p
	}
	sorted := sortSlices(s)
	for _, family := range slices.Sorted(maps.Keys(sorted.ours)) {
		p.Steps = append(p.Steps,
			endpoints.DeleteSlices(sorted.ours[family], s.Service, eventsOf(s.Service), "nobody keeps it any more")...)
	}
	return p
}

// mirrored reports whether the controller endpointslicemirroring has made the slice from Endpoints.
func mirrored(o *discoveryv1.EndpointSlice) bool {
	return o.Labels[discoveryv1.LabelManagedBy] == "endpointslicemirroring-controller.k8s.io"
}

// ours reports whether a slice has the label of this controller.
func ours(o *discoveryv1.EndpointSlice) bool {
	return o.Labels[discoveryv1.LabelManagedBy] == managedBy
}

// sortedSlices are the slices that the controller manages, without those that are being deleted.
type sortedSlices struct {
	ours    map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice // by name
	orphans []*discoveryv1.EndpointSlice                             // of no service, or of another one
}

// mine returns the slices that show the pods of the service.
func (s snapshot) mine() (all []*discoveryv1.EndpointSlice) {
	for _, o := range s.Slices {
		if s.isMine(o) {
			all = append(all, o)
		}
	}
	return all
}

// isMine reports whether a slice is the controller's, belongs to the service and stays.
func (s snapshot) isMine(o *discoveryv1.EndpointSlice) bool {
	return ours(o) && o.DeletionTimestamp == nil && metav1.IsControlledBy(o, s.Service)
}

// sortSlices sorts the slices by name and address family, and leaves out those of other controllers.
func sortSlices(s snapshot) sortedSlices {
	sorted := sortedSlices{ours: map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice{}}
	all := slices.Clone(s.Slices)
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range all {
		switch {
		case !ours(o) || o.DeletionTimestamp != nil:
		case s.isMine(o):
			sorted.ours[o.AddressType] = append(sorted.ours[o.AddressType], o)
		default:
			sorted.orphans = append(sorted.orphans, o)
		}
	}
	return sorted
}

// familiesOf returns the address families that a service has (EPS-24).
func familiesOf(service *corev1.Service) (families []discoveryv1.AddressType) {
	add := func(family corev1.IPFamily) {
		known := family == corev1.IPv4Protocol || family == corev1.IPv6Protocol
		if t := discoveryv1.AddressType(family); known && !slices.Contains(families, t) {
			families = append(families, t)
		}
	}
	for _, family := range service.Spec.IPFamilies {
		add(family)
	}
	if len(families) == 0 {
		_, family := endpoints.Parse(service.Spec.ClusterIP)
		add(family)
	}
	if len(families) == 0 {
		families = []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	}
	return families
}

// labelsFor are the labels of the service's slices (EPS-46).
func labelsFor(service *corev1.Service) map[string]string {
	labels := endpoints.SliceLabels(service.Labels, service.Name, managedBy)
	delete(labels, corev1.IsHeadlessService)
	if ip := service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone {
		labels[corev1.IsHeadlessService] = ""
	}
	return labels
}

// eventsOf are those of EPS-61.
func eventsOf(service *corev1.Service) plan.Events {
	return plan.Events{Failed: plan.Event{
		Type: corev1.EventTypeWarning, Reason: "FailedToUpdateEndpointSlices",
		Message: fmt.Sprintf("Error updating Endpoint Slices for Service %s/%s: {error}", service.Namespace,
			service.Name),
	}}
}

// nodeNotFound reports pods that are left out because their nodes do not exist (EPS-31). It names only the first of
// them by name: there may be thousands.
func nodeNotFound(service *corev1.Service, pods []*corev1.Pod) plan.Event {
	p := slices.MinFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	why := fmt.Sprintf("skipping Pod %s for Service %s/%s: Node %s Not Found", p.Name, service.Namespace, service.Name,
		p.Spec.NodeName)
	if more := len(pods) - 1; more > 0 {
		why += fmt.Sprintf(", and %d more pods without a Node", more)
	}
	e := eventsOf(service).Failed
	e.Message = strings.ReplaceAll(e.Message, "{error}", why)
	return e
}

// missesNodes reports whether pods are left out because their nodes do not exist (EPS-31).
func missesNodes(s snapshot) bool {
	lost := func(p *corev1.Pod) bool {
		_, exists := s.Zones[p.Spec.NodeName]
		return !exists && p.Spec.NodeName != ""
	}
	return slices.ContainsFunc(s.Pods, lost) && len(membersOf(s).homeless) > 0
}
