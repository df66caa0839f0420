package endpoint

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	netutils "k8s.io/utils/net"

	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// selects reports whether the labels have all pairs of a selector (EP-10). An empty one selects everything, none nothing.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return selector != nil
}

// counts reports whether a pod that is selected has a place in Endpoints (EP-11, EP-12).
func counts(service *corev1.Service, p *corev1.Pod) bool {
	return !podutil.Finished(p) && (p.Status.PodIP != "" || len(p.Status.PodIPs) > 0) &&
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
	if _, family := parse(service.Spec.ClusterIP); family != "" {
		return family
	}
	if _, family := parse(p.Status.PodIP); family != "" {
		return family
	}
	if len(p.Status.PodIPs) > 0 {
		_, family := parse(p.Status.PodIPs[0].IP)
		return family
	}
	return ""
}

// addressIn returns the pod's first address of a family, as it is printed canonically; "" if it has none (EP-14).
func addressIn(want corev1.IPFamily, p *corev1.Pod) string {
	for _, podIP := range p.Status.PodIPs {
		if ip, family := parse(podIP.IP); ip != "" && family == want {
			return ip
		}
	}
	return ""
}

// parse reads an address, and prints it canonically. Both results are empty if it is none. Older servers let leading
// zeros pass, so they must be read here, and as decimal.
func parse(text string) (canonical string, family corev1.IPFamily) {
	ip := netutils.ParseIPSloppy(text)
	switch {
	case ip == nil:
		return "", ""
	case ip.To4() != nil:
		return ip.String(), corev1.IPv4Protocol
	}
	return ip.String(), corev1.IPv6Protocol
}

// addressOf is how the pod appears in Endpoints (EP-15).
func addressOf(service *corev1.Service, p *corev1.Pod, ip string) corev1.EndpointAddress {
	a := corev1.EndpointAddress{
		IP:        ip,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}
	if node := p.Spec.NodeName; node != "" {
		a.NodeName = &node
	}
	if p.Spec.Hostname != "" && p.Spec.Subdomain == service.Name {
		a.Hostname = p.Spec.Hostname
	}
	return a
}

// portsFor returns the service's ports as this pod serves them (EP-17..19). A headless service may have none: then there
// is the one port that is none.
func portsFor(service *corev1.Service, p *corev1.Pod) []port {
	if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
		return []port{{}}
	}
	ports := make([]port, 0, len(service.Spec.Ports))
	for i := range service.Spec.Ports {
		sp := &service.Spec.Ports[i]
		if number := numberOf(sp, p); number != 0 {
			entry := port{name: sp.Name, number: number, protocol: protocol(sp.Protocol)}
			if sp.AppProtocol != nil {
				entry.app, entry.hasApp = *sp.AppProtocol, true
			}
			ports = append(ports, entry)
		}
	}
	return ports
}

// numberOf returns the number that a service's port has in a pod, 0 if the pod does not have it (EP-17).
func numberOf(sp *corev1.ServicePort, p *corev1.Pod) int32 {
	if sp.TargetPort.Type == intstr.Int {
		return sp.TargetPort.IntVal
	}
	if number := named(sp, p.Spec.Containers); number != 0 {
		return number
	}
	var sidecars []corev1.Container
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = append(sidecars, *c)
		}
	}
	return named(sp, sidecars)
}

func named(sp *corev1.ServicePort, containers []corev1.Container) int32 {
	for i := range containers {
		for j := range containers[i].Ports {
			cp := &containers[i].Ports[j]
			if cp.Name == sp.TargetPort.StrVal && protocol(cp.Protocol) == protocol(sp.Protocol) {
				return cp.ContainerPort
			}
		}
	}
	return 0
}

// protocol is TCP where none is said, as the server has it.
func protocol(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
