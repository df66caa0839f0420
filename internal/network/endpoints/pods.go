package endpoints

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	netutils "k8s.io/utils/net"
)

// PodPaths are the fields of pods that the functions of this package read, besides the metadata.
func PodPaths() []string {
	return []string{
		"spec.nodeName", "spec.hostname", "spec.subdomain",
		"spec.containers.name", "spec.containers.ports", "spec.containers.restartPolicy",
		"spec.initContainers.name", "spec.initContainers.ports", "spec.initContainers.restartPolicy",
		"status.phase", "status.podIP", "status.podIPs", "status.conditions",
	}
}

// Selects reports whether the labels have all pairs of a selector (EP-10). An empty one selects everything, none
// nothing.
func Selects(selector, labels map[string]string) bool {
	return Selector(selector)(labels)
}

// Selector returns [Selects] of a selector, at less cost for many pods.
func Selector(selector map[string]string) func(labels map[string]string) bool {
	type pair struct{ key, value string }
	pairs := make([]pair, 0, len(selector))
	for key, value := range selector {
		pairs = append(pairs, pair{key, value})
	}
	return func(labels map[string]string) bool {
		for _, p := range pairs {
			if has, ok := labels[p.key]; !ok || has != p.value {
				return false
			}
		}
		return selector != nil
	}
}

// HasAddress reports whether a pod says any address of its own (EP-11, EPS-27).
func HasAddress(p *corev1.Pod) bool { return p.Status.PodIP != "" || len(p.Status.PodIPs) > 0 }

// Parse reads an address, and prints it canonically. Both results are empty if it is none. Older servers let leading
// zeros pass, so they must be read here, and as decimal. A canonical text costs no allocation.
func Parse(text string) (canonical string, family corev1.IPFamily) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !a.Is4In6() {
		var printed [48]byte
		if string(a.AppendTo(printed[:0])) == text {
			if a.Is4() {
				return text, corev1.IPv4Protocol
			}
			return text, corev1.IPv6Protocol
		}
	}
	ip := netutils.ParseIPSloppy(text)
	switch {
	case ip == nil:
		return "", ""
	case ip.To4() != nil:
		return ip.String(), corev1.IPv4Protocol
	}
	return ip.String(), corev1.IPv6Protocol
}

// Hostname returns the name under which the service knows the pod, "" if it has none (EP-15, EPS-30).
func Hostname(service *corev1.Service, p *corev1.Pod) string {
	if p.Spec.Subdomain != service.Name {
		return ""
	}
	return p.Spec.Hostname
}

// Numbers finds the numbers that ports of a service have in a pod.
type Numbers struct {
	pod    *corev1.Pod
	byName map[namedPort]int32 // nil where few are asked for
}

// namedPort is a port of a container, as services name it.
type namedPort struct {
	name     string
	protocol corev1.Protocol
}

// fewPorts are so few that it costs less to go through the ports of a pod for each.
const fewPorts = 8

// NumbersOf returns those of a pod that is to be asked for so many ports.
func NumbersOf(p *corev1.Pod, asked int) Numbers {
	n := Numbers{pod: p}
	if asked > fewPorts {
		n.byName = map[namedPort]int32{}
		note(n.byName, p.Spec.Containers)
		note(n.byName, sidecars(p))
	}
	return n
}

// note notes the first port of each name, unless one that is there has a number.
func note(numbers map[namedPort]int32, containers []corev1.Container) {
	seen := map[namedPort]bool{}
	for i := range containers {
		for _, cp := range containers[i].Ports {
			if of := (namedPort{cp.Name, Protocol(cp.Protocol)}); !seen[of] && numbers[of] == 0 {
				seen[of], numbers[of] = true, cp.ContainerPort
			}
		}
	}
}

// Of returns the number that a service's port has in the pod, 0 if the pod does not have it (EP-17, EPS-32).
func (n *Numbers) Of(sp *corev1.ServicePort) int32 {
	if sp.TargetPort.Type == intstr.Int {
		return sp.TargetPort.IntVal
	}
	if n.byName != nil {
		return n.byName[namedPort{sp.TargetPort.StrVal, Protocol(sp.Protocol)}]
	}
	if number := named(sp, n.pod.Spec.Containers); number != 0 {
		return number
	}
	return named(sp, sidecars(n.pod))
}

// sidecars are the init containers that go on running.
func sidecars(p *corev1.Pod) (all []corev1.Container) {
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil &&
			*c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, *c)
		}
	}
	return all
}

// named returns the number of the first port with the name and protocol that a service asks for; 0 if there
// is none.
func named(sp *corev1.ServicePort, containers []corev1.Container) int32 {
	for i := range containers {
		for j := range containers[i].Ports {
			cp := &containers[i].Ports[j]
			if cp.Name == sp.TargetPort.StrVal && Protocol(cp.Protocol) == Protocol(sp.Protocol) {
				return cp.ContainerPort
			}
		}
	}
	return 0
}

// Protocol is TCP where none is said, as the server has it.
func Protocol(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
