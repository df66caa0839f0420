package endpoint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// found is what was found of the pods of a service: an entry for each pod that has a place in its Endpoints,
// in order. The first are those of pods without an address of the service's family, which have none. It is
// the decision of the controller: Plan makes it, and the memory keeps that of a large service. It is never
// changed.
type found []*endpoints.Entry

// findAddresses looks at pods, and puts what it finds among what was found of the others before.
func findAddresses(s snapshot) found {
	fresh := make(found, 0, len(s.Pods))
	selects := endpoints.Selector(s.Service.Spec.Selector)
	var ports []endpoints.Port // of the last pod: mostly they all have the same, and share them
	for _, p := range s.Pods {
		if p.Namespace != s.Service.Namespace || !selects(p.Labels) || !counts(s.Service, p) {
			continue
		}
		ip := addressIn(familyOf(s.Service, p), p)
		if ip == "" {
			fresh = append(fresh, &endpoints.Entry{Address: addressOf(s.Service, p, "")})
			continue
		}
		if now := portsFor(s.Service, p); !slices.Equal(now, ports) {
			ports = now
		}
		if len(ports) > 0 {
			fresh = append(fresh,
				&endpoints.Entry{Address: addressOf(s.Service, p, ip), Ready: readyFor(s.Service, p), Ports: ports})
		}
	}
	slices.SortStableFunc(fresh, endpoints.CompareEntries)
	return s.Others.with(fresh)
}

// with returns what was found of both, of which few are fewer.
func (f found) with(few found) found {
	all := make(found, 0, len(f)+len(few))
	for _, e := range few {
		at, _ := slices.BinarySearchFunc(f, e, endpoints.CompareEntries)
		all = append(append(all, f[:at]...), e)
		f = f[at:]
	}
	return append(all, f...)
}

// without returns what was found of all pods but those of some names.
func (f found) without(names map[string]bool) found {
	return slices.DeleteFunc(slices.Clone(f), func(e *endpoints.Entry) bool { return names[e.Address.TargetRef.Name] })
}

// homeless counts the pods without an address of the service's family (EP-14).
func (f found) homeless() int {
	n := slices.IndexFunc(f, func(e *endpoints.Entry) bool { return e.Address.IP != "" })
	if n < 0 {
		return len(f)
	}
	return n
}

// counts reports whether a pod that is selected has a place in Endpoints (EP-11, EP-12).
func counts(service *corev1.Service, p *corev1.Pod) bool {
	return !podutil.Finished(p) && endpoints.HasAddress(p) &&
		(p.DeletionTimestamp == nil || service.Spec.PublishNotReadyAddresses)
}

// readyFor reports whether the pod's address is among the ready ones (EP-16).
func readyFor(service *corev1.Service, p *corev1.Pod) bool {
	return service.Spec.PublishNotReadyAddresses || podutil.Ready(p)
}

// familyOf returns the one address family that the service's Endpoints have (EP-13).
func familyOf(service *corev1.Service, p *corev1.Pod) corev1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies[0]
	}
	if _, family := endpoints.Parse(service.Spec.ClusterIP); family != "" {
		return family
	}
	if _, family := endpoints.Parse(p.Status.PodIP); family != "" {
		return family
	}
	if len(p.Status.PodIPs) > 0 {
		_, family := endpoints.Parse(p.Status.PodIPs[0].IP)
		return family
	}
	return ""
}

// addressIn returns the pod's first address of a family, as it is printed canonically; "" if it has none (EP-14).
func addressIn(want corev1.IPFamily, p *corev1.Pod) string {
	for _, podIP := range p.Status.PodIPs {
		if ip, family := endpoints.Parse(podIP.IP); ip != "" && family == want {
			return ip
		}
	}
	return ""
}

// addressOf is how the pod appears in Endpoints (EP-15).
func addressOf(service *corev1.Service, p *corev1.Pod, ip string) corev1.EndpointAddress {
	a := corev1.EndpointAddress{
		IP:        ip,
		Hostname:  endpoints.Hostname(service, p),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}
	if node := p.Spec.NodeName; node != "" {
		a.NodeName = &node
	}
	return a
}

// portsFor returns the service's ports as this pod serves them (EP-17..19). A headless service may have none: then
// there is the one port that is none.
func portsFor(service *corev1.Service, p *corev1.Pod) []endpoints.Port {
	if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
		return []endpoints.Port{{}}
	}
	ports, numbers := make([]endpoints.Port, 0, len(service.Spec.Ports)),
		endpoints.NumbersOf(p, len(service.Spec.Ports))
	for i := range service.Spec.Ports {
		sp := &service.Spec.Ports[i]
		if number := numbers.Of(sp); number != 0 {
			entry := endpoints.Port{Name: sp.Name, Number: number, Protocol: endpoints.Protocol(sp.Protocol)}
			if sp.AppProtocol != nil {
				entry.App, entry.HasApp = *sp.AppProtocol, true
			}
			ports = append(ports, entry)
		}
	}
	return ports
}
