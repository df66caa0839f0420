package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	managedBy          = "endpoints.kubernetes.io/managed-by"
	endpointController = "endpoint-controller"
	headless           = "service.kubernetes.io/headless"
)

// slot is a place in Endpoints: an address at a port. An object is a set of slots, however they are put into subsets.
type slot struct {
	ip       string
	uid      types.UID
	port     portKey
	nodeName string
	hostname string
}

// portKey is a port of a Service at a pod; zero for the only slot of a Service without ports (EP-19).
type portKey struct {
	name, protocol, appProtocol string
	number                      int32
}

// slots are what Endpoints have, each ready or not.
func slots(e *corev1.Endpoints) map[slot]bool {
	all := map[slot]bool{}
	for _, s := range e.Subsets {
		ports := []portKey{}
		for _, p := range s.Ports {
			ports = append(ports, portKey{p.Name, string(p.Protocol), ptr.Deref(p.AppProtocol, ""), p.Port})
		}
		if len(ports) == 0 {
			ports = append(ports, portKey{})
		}
		for _, port := range ports {
			for _, a := range s.Addresses {
				all[slotOf(a, port)] = true
			}
			for _, a := range s.NotReadyAddresses {
				all[slotOf(a, port)] = false // wins over ready (EP-20)
			}
		}
	}
	return all
}

func slotOf(a corev1.EndpointAddress, port portKey) slot {
	s := slot{ip: a.IP, port: port, nodeName: ptr.Deref(a.NodeName, ""), hostname: a.Hostname}
	if a.TargetRef != nil {
		s.uid = a.TargetRef.UID
	}
	return s
}

// expected are the slots that a Service ought to have (EP-10..20), and how many addresses that is, summed over subsets.
func (w *world) expected(s *corev1.Service) (all map[slot]bool, addresses int) {
	all = map[slot]bool{}
	users := map[portKey][]string{} // the addresses at each port
	for _, p := range w.podsIn[s.Namespace] {
		in, up := served(s, p.Pod)
		if !in {
			continue
		}
		one := slot{ip: address(s, p.Pod), uid: p.UID, nodeName: p.Spec.NodeName}
		if p.Spec.Hostname != "" && p.Spec.Subdomain == s.Name {
			one.hostname = p.Spec.Hostname
		}
		for _, one.port = range portsOf(s, p.Pod) {
			all[one] = up
			users[one.port] = append(users[one.port], fmt.Sprint(one.ip, one.uid, up))
		}
	}
	groups := map[string]int{} // ports with the same addresses share a subset
	for _, list := range users {
		slices.Sort(list)
		groups[strings.Join(list, ",")] = len(list)
	}
	for _, n := range groups {
		addresses += n
	}
	return all, addresses
}

// portsOf are the ports that a pod has for a Service (EP-17..19).
func portsOf(s *corev1.Service, p *corev1.Pod) (all []portKey) {
	if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP == corev1.ClusterIPNone {
		return []portKey{{}}
	}
	for _, port := range s.Spec.Ports {
		number, ok := port.TargetPort.IntVal, true
		if port.TargetPort.StrVal != "" {
			number, ok = namedPort(p, port.TargetPort.StrVal, port.Protocol)
		}
		if ok {
			all = append(all, portKey{port.Name, string(port.Protocol), ptr.Deref(port.AppProtocol, ""), number})
		}
	}
	return all
}

func namedPort(p *corev1.Pod, name string, protocol corev1.Protocol) (int32, bool) {
	containers := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, port := range c.Ports {
			if port.Name == name && port.Protocol == protocol {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

// unsettledService says in what the Endpoints of a Service are not as they should be; empty if in nothing.
func (w *world) unsettledService(key string) string {
	s, e := w.services[key], w.endpoints[key]
	switch {
	case s == nil:
		return "there is no Service"
	case !hasEndpoints(s):
		return ""
	case e == nil:
		return "the Service has no Endpoints"
	}
	if problem := wrongLabels(s, e); problem != "" {
		return problem
	}
	want, addresses := w.expected(s)
	have := slots(e)
	annotated := e.Annotations[overCapacity] == "truncated"
	if annotated != (addresses > maxAddresses) {
		return fmt.Sprintf("%d addresses are expected, and said to be truncated: %v", addresses, annotated)
	}
	if !annotated {
		if !maps.Equal(have, want) {
			return "differs from what is expected: " + difference(have, want)
		}
		return ""
	}
	return cut(have, want)
}

// cut says what is wrong with the slots of Endpoints that cannot have all (EP-32, EP-33).
func cut(have, want map[slot]bool) string {
	readyLeftOut, others := 0, 0
	for each, up := range want {
		if _, in := have[each]; !in && up {
			readyLeftOut++
		}
	}
	for each, up := range have {
		if is, known := want[each]; !known || is != up {
			return fmt.Sprintf("has %+v as ready %v", each, up)
		}
		if !up {
			others++
		}
	}
	if readyLeftOut > 0 && others > 0 {
		return fmt.Sprintf("%d ready ones are left out, and %d others are in", readyLeftOut, others)
	}
	return ""
}

// wrongLabels compares labels (EP-25), but for the one of headless Services: the original does not repair it (EP-27).
func wrongLabels(s *corev1.Service, e *corev1.Endpoints) string {
	want := maps.Clone(s.Labels)
	if want == nil {
		want = map[string]string{}
	}
	want[managedBy] = endpointController
	have := maps.Clone(e.Labels)
	delete(want, headless)
	delete(have, headless)
	if !maps.Equal(want, have) {
		return fmt.Sprintf("has labels %v, expected are %v", have, want)
	}
	return ""
}

// difference shows some of the slots that differ.
func difference(have, want map[slot]bool) string {
	var all []string
	for each, up := range want {
		if is, in := have[each]; !in || is != up {
			all = append(all, fmt.Sprintf("expected %+v ready %v", each, up))
		}
	}
	for each, up := range have {
		if _, in := want[each]; !in {
			all = append(all, fmt.Sprintf("unexpected %+v ready %v", each, up))
		}
	}
	slices.Sort(all)
	n := len(all)
	return fmt.Sprintf("%d differences: %s", n, strings.Join(all[:min(n, 3)], "; "))
}
