package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated; this controller serves those who still write them

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	managedBy    = "endpointslicemirroring-controller.k8s.io"
	leaderRecord = "control-plane.alpha.kubernetes.io/leader"
	lastApplied  = "kubectl.kubernetes.io/last-applied-configuration"
	tooMany      = "TooManyAddressesToMirror"
	invalidIP    = "InvalidIPAddress"
	manyMessage  = "A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were " +
		"skipped"
	wrongMessage = "Skipped %d invalid IP addresses when mirroring to EndpointSlices"
)

// snapshot is what has one name: Endpoints, Service and slices. Observe fills it; planMirror and the metrics
// read it. The objects belong to shared caches.
type snapshot struct {
	Key       plan.Key
	Endpoints *corev1.Endpoints            // nil: there are none
	Service   *corev1.Service              // nil: there is none
	Slices    []*discoveryv1.EndpointSlice // of that name, whoever manages them
	Max       int                          // addresses of a subset that are mirrored
	// the Endpoints are others than at the last reconcile, or this is the first one
	Changed bool
	Began   time.Time // when the reconcile did
}

// planMirror decides what the slices must be (ESM-9..22).
func planMirror(_ time.Time, s snapshot) plan.Plan {
	mine := mineOf(s)
	if why := unwanted(s); why != "" {
		return plan.Plan{Why: why, Steps: endpoints.DeleteSlices(mine, owner(s), plan.Events{}, why)}
	}
	wanted, skipped := mirror(s.Endpoints, s.Max)
	var each plan.Each
	total := 0
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
		discoveryv1.AddressTypeFQDN} {
		changes := changesOf(s, family, wanted, mine)
		why := fmt.Sprintf("%s: %d to create, %d to change, %d to delete", family, len(changes.Create),
			len(changes.Update), len(changes.Delete))
		if steps := changes.Steps(s.Endpoints, plan.Events{}, why); len(steps) > 0 { // ESM-17: no events
			each.Sequences = append(each.Sequences, steps)
		}
	}
	for _, w := range wanted {
		total += len(w.endpoints)
	}
	p := plan.Plan{Why: fmt.Sprintf("up to date: %d endpoints in %d slices", total, len(wanted))}
	if s.Changed || len(each.Sequences) > 0 {
		p.Steps = skipped.events(s)
	}
	if len(each.Sequences) > 0 {
		p.Why = fmt.Sprintf("change: %d endpoints in %d slices", total, len(wanted))
		p.Steps = append(p.Steps, each)
	}
	return p
}

// mineOf are the slices that the controller manages, by name, without those that are being deleted.
func mineOf(s snapshot) (mine []*discoveryv1.EndpointSlice) {
	for _, o := range s.Slices {
		if o.Labels[discoveryv1.LabelManagedBy] == managedBy && o.DeletionTimestamp == nil {
			mine = append(mine, o)
		}
	}
	slices.SortFunc(mine, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return mine
}

// unwanted says why nothing is mirrored, "" if something is.
func unwanted(s snapshot) string {
	switch {
	case s.Endpoints == nil:
		return "nothing to mirror: there are no Endpoints"
	case !mirrorable(s.Endpoints):
		return "not mirrored: the Endpoints say so"
	case s.Service == nil:
		return "not mirrored: there is no such service"
	case s.Service.Spec.Selector != nil:
		return "not mirrored: the service has a selector"
	}
	return ""
}

// mirrorable reports whether Endpoints may be mirrored (ESM-4).
func mirrorable(o metav1.Object) bool {
	_, leader := o.GetAnnotations()[leaderRecord]
	return !leader && o.GetLabels()[discoveryv1.LabelSkipMirror] != "true"
}

// wanted is a slice that must exist, before it is known which stored one takes its place.
type wanted struct {
	family discoveryv1.AddressType
	// ports are those of the subset.
	ports []discoveryv1.EndpointPort
	// endpoints are its addresses of the family.
	endpoints []discoveryv1.Endpoint
}

// skips counts addresses that are not mirrored, because they are no addresses, or more than one subset may
// have. Events and metrics are about them.
type skips struct{ invalid, surplus int }

// events report what is not mirrored (ESM-15, ESM-16).
func (k skips) events(s snapshot) (steps []plan.Step) {
	warn := func(reason, format string, values ...any) {
		steps = append(steps, plan.RecordEvent{Object: s.Endpoints, Event: plan.Event{
			Type: corev1.EventTypeWarning, Reason: reason, Message: fmt.Sprintf(format, values...)}})
	}
	if k.invalid > 0 {
		warn(invalidIP, wrongMessage, k.invalid)
	}
	if k.surplus > 0 {
		warn(tooMany, manyMessage, s.Max, k.surplus+k.invalid)
	}
	return steps
}

// mirror returns the slices that show the Endpoints (ESM-12..14): one for each list of ports and address family.
func mirror(o *corev1.Endpoints, most int) (all []*wanted, skipped skips) {
	for _, subset := range endpoints.Pack(endpoints.Unpack(o.Subsets)) {
		ports := portsOf(subset.Ports)
		byFamily := map[discoveryv1.AddressType]*wanted{}
		n := 0
		add := func(a corev1.EndpointAddress, ready bool) {
			ip, family := endpoints.Parse(a.IP)
			if ip == "" {
				skipped.invalid++
				return
			}
			if n >= most {
				skipped.surplus++
				return
			}
			n++
			w := byFamily[discoveryv1.AddressType(family)]
			if w == nil {
				w = &wanted{family: discoveryv1.AddressType(family), ports: ports}
				byFamily[w.family] = w
				all = append(all, w)
			}
			w.endpoints = append(w.endpoints, endpointOf(a, ip, ready))
		}
		for _, a := range subset.Addresses {
			add(a, true)
		}
		for _, a := range subset.NotReadyAddresses {
			add(a, false)
		}
	}
	return all, skipped
}

// portsOf returns the ports of a subset as slices have them.
func portsOf(ports []corev1.EndpointPort) (all []discoveryv1.EndpointPort) {
	for _, p := range ports {
		all = append(all, endpoints.SlicePort(p.Name, p.Port, p.Protocol, p.AppProtocol))
	}
	return all
}

// endpointOf is how an address appears in a slice (ESM-14).
func endpointOf(a corev1.EndpointAddress, ip string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: a.TargetRef,
		NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e
}

// changesOf decides about the slices of one family (ESM-18).
func changesOf(s snapshot, family discoveryv1.AddressType, all []*wanted,
	mine []*discoveryv1.EndpointSlice) (c endpoints.SliceChanges) {
	free, used := map[string][]*discoveryv1.EndpointSlice{}, map[*discoveryv1.EndpointSlice]bool{} // by their ports
	for _, o := range mine {
		if text := endpoints.PortsText(o.Ports); o.AddressType == family {
			free[text] = append(free[text], o)
		}
	}
	reference := *metav1.NewControllerRef(s.Endpoints, corev1.SchemeGroupVersion.WithKind("Endpoints"))
	labels, annotations := endpoints.SliceLabels(s.Endpoints.Labels, s.Key.Name, managedBy), annotationsOf(s.Endpoints)
	for _, w := range all {
		if w.family != family {
			continue
		}
		text := endpoints.PortsText(w.ports)
		if len(free[text]) == 0 {
			fresh := endpoints.NewSlice(reference, s.Key.Namespace, s.Key.Name, family)
			fresh.Labels, fresh.Annotations, fresh.Ports, fresh.Endpoints = labels, annotations, w.ports, w.endpoints
			c.Create = append(c.Create, fresh)
			continue
		}
		old := free[text][0]
		free[text], used[old] = free[text][1:], true
		list, changed := merge(old.Endpoints, w.endpoints)
		if !changed && maps.Equal(old.Labels, labels) && maps.Equal(old.Annotations, annotations) &&
			metav1.IsControlledBy(old, s.Endpoints) {
			continue
		}
		after := old.DeepCopy()
		after.Endpoints, after.Labels, after.Annotations = list, labels, annotations
		after.OwnerReferences = []metav1.OwnerReference{reference}
		c.Update = append(c.Update, endpoints.SliceUpdate{Old: old, New: after})
	}
	for _, o := range mine {
		if o.AddressType == family && !used[o] {
			c.Delete = append(c.Delete, o)
		}
	}
	recycled := len(c.Update)
	c.Recycle()
	for _, u := range c.Update[recycled:] {
		u.New.Annotations = annotations
	}
	return c
}

// merge returns the endpoints that a slice must have, those that it has already in the order in which it has them
// (ESM-26), and whether that is a change.
func merge(has, want []discoveryv1.Endpoint) (list []discoveryv1.Endpoint, changed bool) {
	at := map[string][]int{} // by address
	for i := range want {
		ip := want[i].Addresses[0]
		at[ip] = append(at[ip], i)
	}
	used := make([]bool, len(want))
	for _, e := range has {
		if len(e.Addresses) != 1 {
			continue
		}
		for _, i := range at[e.Addresses[0]] {
			if !used[i] && same(e, want[i]) {
				used[i] = true
				list = append(list, want[i])
				break
			}
		}
	}
	changed = len(list) != len(has) || len(list) != len(want)
	for i := range want {
		if !used[i] {
			list = append(list, want[i])
		}
	}
	return list, changed
}

// same reports whether two endpoints say the same. The version of the object that they refer to is no reason to write
// (EPS-34).
func same(a, b discoveryv1.Endpoint) bool {
	if a.TargetRef != nil && b.TargetRef != nil {
		ref := *a.TargetRef
		ref.ResourceVersion = b.TargetRef.ResourceVersion
		a.TargetRef = &ref
	}
	return equality.Semantic.DeepEqual(a, b)
}

// annotationsOf are the annotations of the slices (ESM-21).
func annotationsOf(o *corev1.Endpoints) map[string]string {
	all := maps.Clone(o.Annotations)
	delete(all, endpoints.TriggerTime)
	delete(all, lastApplied)
	return all
}

// owner is what owns the slices; nil if there are no Endpoints.
func owner(s snapshot) plan.Object {
	if s.Endpoints == nil {
		return nil
	}
	return s.Endpoints
}
