package endpointslice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var webKey = plan.Key{Namespace: "shop", Name: "web"}

// now is when the services of the tests are reconciled. They are hours old by then.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

type svcEdit = func(*corev1.Service)

// web is a service as a server would default it: port 80 leads to port 8080 of pods with the label app=web.
func web(edits ...svcEdit) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", ResourceVersion: "1",
			CreationTimestamp: ago(2 * time.Hour), Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "web"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func headless(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }

func publishing(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }

func dual(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

func named(s *corev1.Service) {
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("web")}}
}

func annotated(key, value string) svcEdit {
	return func(s *corev1.Service) { s.Annotations = map[string]string{key: value} }
}

func auto(s *corev1.Service) { annotated(corev1.AnnotationTopologyMode, "Auto")(s) }

func distributed(to string) svcEdit {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = &to }
}

type podEdit = func(*corev1.Pod)

// pod is one that web selects: on node n1, running, and ready for an hour. Its uid is its name.
func pod(name, ip string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{"app": "web"}, CreationTimestamp: ago(2 * time.Hour)},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func pods(n int, edits ...podEdit) (all []*corev1.Pod) {
	for i := range n {
		all = append(all, pod(fmt.Sprintf("p%04d", i), fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255), edits...))
	}
	return all
}

func version(n int) podEdit { return func(p *corev1.Pod) { p.ResourceVersion = strconv.Itoa(n) } }

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(time.Second)) }

func phase(phase corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = phase } }

func ips(all ...string) podEdit {
	return func(p *corev1.Pod) {
		p.Status.PodIPs = nil
		for _, ip := range all {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

func on(node string) podEdit { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// exposing gives the pod's container a port.
func exposing(number int32) podEdit {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: "web", ContainerPort: number})
	}
}

// zoned are three nodes in two zones, and one without.
var zoned = map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": ""}

func node(name, zone, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// snapshotOf is what was observed of web.
func snapshotOf(service *corev1.Service, stored []*discoveryv1.EndpointSlice, pods ...*corev1.Pod) snapshot {
	return snapshot{Key: webKey, Service: service, Slices: stored, Pods: pods, Zones: zoned, Max: 100}
}

// writes counts the requests that the steps make.
type writes struct{ creates, updates, deletes, events int }

// carryOut returns the slices as the plan leaves them. The server gives names and uids.
func carryOut(s snapshot, p plan.Plan) (after []*discoveryv1.EndpointSlice, n writes) {
	after = slices.Clone(s.Slices)
	var do func(steps []plan.Step)
	do = func(steps []plan.Step) {
		for _, step := range steps {
			switch step := step.(type) {
			case plan.Create:
				o := step.Object.DeepCopyObject().(*discoveryv1.EndpointSlice)
				name := fmt.Sprintf("%s%05d", o.GenerateName, len(after)+100*n.creates+10_000*len(p.Why))
				for slices.ContainsFunc(after, func(o *discoveryv1.EndpointSlice) bool { return o.Name == name }) {
					name += "x"
				}
				o.Name, o.UID, o.ResourceVersion = name, types.UID("uid-"+name), "1"
				after = append(after, o)
				n.creates++
			case plan.Change:
				i := slices.Index(after, step.Old.(*discoveryv1.EndpointSlice))
				after[i] = step.New.DeepCopyObject().(*discoveryv1.EndpointSlice)
				after[i].ResourceVersion += "1"
				n.updates++
			case plan.Delete:
				for _, o := range step.Objects {
					i := slices.Index(after, o.(*discoveryv1.EndpointSlice))
					after = slices.Delete(slices.Clone(after), i, i+1)
					n.deletes++
				}
			case plan.Each:
				for _, sequence := range step.Sequences {
					do(sequence)
				}
			case plan.RecordEvent:
				n.events++
			}
		}
	}
	do(p.Steps)
	return after, n
}

// stored are the slices after the plan was carried out.
func stored(s snapshot) []*discoveryv1.EndpointSlice {
	after, _ := carryOut(s, planSlices(now, s))
	return after
}

// render prints slices, a line for each, in order of what they say: "IPv4 :8080/TCP> 10.0.0.1 !10.0.0.2".
func render(all []*discoveryv1.EndpointSlice) (lines []string) {
	for _, s := range all {
		var ports, addresses []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d/%s", ptr.Deref(p.Name, "?"), ptr.Deref(p.Port, 0), ptr.Deref(p.Protocol, "?")))
		}
		for i := range s.Endpoints {
			addresses = append(addresses, renderEndpoint(&s.Endpoints[i]))
		}
		lines = append(lines,
			strings.TrimSpace(fmt.Sprintf("%s %s> %s", s.AddressType, strings.Join(ports, ","), strings.Join(addresses, " "))))
	}
	slices.Sort(lines)
	return lines
}

// renderEndpoint prints "!" for one that is not ready, "~" for one that terminates, "+" for one that serves all the same, and "@"
// with the zones and nodes of its hints.
func renderEndpoint(e *discoveryv1.Endpoint) string {
	text := strings.Join(e.Addresses, "+")
	if !ready(e) {
		text = "!" + text
	}
	if is(e.Conditions.Terminating, true) {
		text = "~" + text
		if is(e.Conditions.Serving, true) {
			text = "+" + text
		}
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			text += "@" + z.Name
		}
		for _, n := range e.Hints.ForNodes {
			text += "@" + n.Name
		}
	}
	return text
}

// theirs is a slice of somebody else.
func theirs(name, manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
}
