package endpointslice

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// member is a pod that has a place in the service's slices.
type member struct {
	pod    *corev1.Pod
	zone   string // of its node; "" if it has none
	ports  int    // its list of ports, by its index in members.ports
	placed bool   // in a slice
}

// members are all that have a place, and the different lists of ports that they serve. Their names distinguish them.
type members struct {
	service *corev1.Service
	// all are the pods that have a place. Indexes point into it, so that it is one allocation.
	all    []member
	byName map[string]int32 // index in all
	// ports are the different lists of ports, which few services have more than one of.
	ports    [][]discoveryv1.EndpointPort
	byPorts  map[string]int // index in ports, by their text
	last     int            // that was found last: mostly there is only one
	homeless []*corev1.Pod  // pods on nodes that do not exist (EPS-31)
}

// membersOf finds the pods that have a place, whatever their addresses are (EPS-27, EPS-31..33).
func membersOf(s snapshot) *members {
	m := &members{service: s.Service, all: make([]member, 0, len(s.Pods)), byName: make(map[string]int32, len(s.Pods)),
		byPorts: map[string]int{}}
	byNumber := !slices.ContainsFunc(s.Service.Spec.Ports,
		func(p corev1.ServicePort) bool { return p.TargetPort.Type != intstr.Int })
	selects := endpoints.Selector(s.Service.Spec.Selector)
	for _, p := range s.Pods {
		if p.Namespace != s.Key.Namespace || podutil.Finished(p) || !endpoints.HasAddress(p) || !selects(p.Labels) {
			continue
		}
		zone, exists := s.Zones[p.Spec.NodeName]
		if !exists && p.Spec.NodeName != "" && !s.Service.Spec.PublishNotReadyAddresses {
			m.homeless = append(m.homeless, p)
			continue
		}
		at := 0
		if !byNumber || len(m.ports) == 0 {
			at = m.portsOf(p)
		}
		m.byName[p.Name] = int32(len(m.all))
		m.all = append(m.all, member{pod: p, zone: zone, ports: at})
	}
	for _, o := range s.Slices {
		if s.Settled[o.UID] {
			m.indexOf(o.Ports)
		}
	}
	m.sortPorts()
	return m
}

// sortPorts puts the lists of ports into an order that does not depend on that of the pods.
func (m *members) sortPorts() {
	if len(m.ports) < 2 {
		return
	}
	order := make([]int, len(m.ports))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order,
		func(a, b int) int { return slices.CompareFunc(m.ports[a], m.ports[b], endpoints.ComparePorts) })
	sorted, now := make([][]discoveryv1.EndpointPort, len(order)), make([]int, len(order))
	for i, was := range order {
		sorted[i], now[was] = m.ports[was], i
	}
	m.ports, m.last = sorted, 0
	for text, was := range m.byPorts {
		m.byPorts[text] = now[was]
	}
	for i := range m.all {
		m.all[i].ports = now[m.all[i].ports]
	}
}

// portsOf returns the index of the list of ports that a pod serves (EPS-32).
func (m *members) portsOf(p *corev1.Pod) int {
	ports, numbers := make([]discoveryv1.EndpointPort, 0, len(m.service.Spec.Ports)),
		endpoints.NumbersOf(p, len(m.service.Spec.Ports))
	for i := range m.service.Spec.Ports {
		sp := &m.service.Spec.Ports[i]
		if number := numbers.Of(sp); number != 0 {
			ports = append(ports, endpoints.SlicePort(sp.Name, number, sp.Protocol, sp.AppProtocol))
		}
	}
	return m.indexOf(ports)
}

// indexOf returns the index of a list of ports, which is added if it is new.
func (m *members) indexOf(ports []discoveryv1.EndpointPort) int {
	if at := m.lookUp(ports); at >= 0 {
		return at
	}
	m.last = len(m.ports)
	m.ports = append(m.ports, ports)
	m.byPorts[endpoints.PortsText(ports)] = m.last
	return m.last
}

// lookUp returns the index of a list of ports; -1 if there is none.
func (m *members) lookUp(ports []discoveryv1.EndpointPort) int {
	if m.last < len(m.ports) && endpoints.SamePorts(m.ports[m.last], ports) {
		return m.last
	}
	at, ok := m.byPorts[endpoints.PortsText(ports)]
	if !ok {
		return -1
	}
	m.last = at
	return at
}

// find returns the member that an endpoint of a slice stands for, nil if there is none (EPS-34).
func (m *members) find(e *discoveryv1.Endpoint) *member {
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
		return nil
	}
	if at, ok := m.byName[e.TargetRef.Name]; ok {
		return &m.all[at]
	}
	return nil
}

// ready reports whether traffic may go to a pod (EPS-29).
func (m *members) ready(p *corev1.Pod, serving bool) bool {
	return m.service.Spec.PublishNotReadyAddresses || serving && p.DeletionTimestamp == nil
}

// endpoint is how a pod appears in slices of an address family (EPS-28..30). Without an address of the family it has
// none.
func (m *members) endpoint(of *member, family discoveryv1.AddressType) (e discoveryv1.Endpoint, ok bool) {
	p := of.pod
	for _, podIP := range p.Status.PodIPs {
		if ip, is := endpoints.Parse(podIP.IP); ip != "" && discoveryv1.AddressType(is) == family {
			e.Addresses = append(e.Addresses, ip)
		}
	}
	if len(e.Addresses) == 0 {
		return e, false
	}
	serving := podutil.Ready(p)
	e.Conditions = discoveryv1.EndpointConditions{
		Ready: ptr.To(m.ready(p, serving)), Serving: &serving, Terminating: ptr.To(p.DeletionTimestamp != nil),
	}
	e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	if node := p.Spec.NodeName; node != "" {
		e.NodeName = &node
	}
	if zone := of.zone; zone != "" {
		e.Zone = &zone
	}
	if hostname := endpoints.Hostname(m.service, p); hostname != "" {
		e.Hostname = &hostname
	}
	return e, true
}

// shows reports whether an endpoint of a slice says what it should of a pod, hints and versions aside (EPS-34). It
// allocates nothing for an endpoint with one address, because most of the time nothing has changed.
func (m *members) shows(e *discoveryv1.Endpoint, of *member, family discoveryv1.AddressType) bool {
	p := of.pod
	serving := podutil.Ready(p)
	c := &e.Conditions
	if !is(c.Ready, m.ready(p, serving)) || !is(c.Serving, serving) || !is(c.Terminating, p.DeletionTimestamp != nil) {
		return false
	}
	ref := e.TargetRef
	if ref.UID != p.UID || ref.Namespace != p.Namespace || ref.APIVersion != "" || ref.FieldPath != "" ||
		len(e.DeprecatedTopology) > 0 {
		return false
	}
	return says(e.NodeName, p.Spec.NodeName) && says(e.Zone, of.zone) &&
		says(e.Hostname, endpoints.Hostname(m.service, p)) && m.hasAddresses(e, of, family)
}

// hasAddresses reports whether an endpoint has just the addresses of the pod in the family.
func (m *members) hasAddresses(e *discoveryv1.Endpoint, of *member, family discoveryv1.AddressType) bool {
	if ips := of.pod.Status.PodIPs; len(e.Addresses) == 1 && len(ips) == 1 && e.Addresses[0] == ips[0].IP {
		return true // the server has seen to it that it is of the family
	}
	want, _ := m.endpoint(of, family)
	return slices.Equal(want.Addresses, e.Addresses)
}

// is reports whether an optional condition is the one that is wanted; one that is missing is not.
func is(has *bool, want bool) bool { return has != nil && *has == want }

// says reports whether an optional text is the one that is wanted; "" stands for none.
func says(has *string, want string) bool {
	if has == nil {
		return want == ""
	}
	return want != "" && *has == want
}
