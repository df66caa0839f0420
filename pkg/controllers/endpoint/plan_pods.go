package endpoint

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// counts reports whether a pod that is selected has a place in Endpoints (EP-11, EP-12).
func counts(service *corev1.Service, p *corev1.Pod) bool {
	return !podutil.Finished(p) && endpoints.HasAddress(p) &&
		(p.DeletionTimestamp == nil || service.Spec.PublishNotReadyAddresses)
}

// readyFor reports whether the pod's address goes among the ready ones (EP-16).
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

// portsFor returns the service's ports as this pod serves them (EP-17..19). A headless service may have none: then there
// is the one port that is none.
func portsFor(service *corev1.Service, p *corev1.Pod) []endpoints.Port {
	if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
		return []endpoints.Port{{}}
	}
	ports := make([]endpoints.Port, 0, len(service.Spec.Ports))
	for i := range service.Spec.Ports {
		sp := &service.Spec.Ports[i]
		if number := endpoints.PortNumber(sp, p); number != 0 {
			entry := endpoints.Port{Name: sp.Name, Number: number, Protocol: endpoints.Protocol(sp.Protocol)}
			if sp.AppProtocol != nil {
				entry.App, entry.HasApp = *sp.AppProtocol, true
			}
			ports = append(ports, entry)
		}
	}
	return ports
}
