package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
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

func selecting(pairs ...string) svcEdit {
	return func(s *corev1.Service) {
		s.Spec.Selector = map[string]string{}
		for _, pair := range pairs {
			k, v, _ := strings.Cut(pair, "=")
			s.Spec.Selector[k] = v
		}
	}
}

func headless(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }

func publishing(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }

func families(f ...corev1.IPFamily) svcEdit {
	return func(s *corev1.Service) { s.Spec.IPFamilies = f }
}

// port is a service port: "http", "http>8080", "http>web" and "http>8080/UDP".
func ports(all ...string) svcEdit {
	return func(s *corev1.Service) {
		s.Spec.Ports = nil
		for i, text := range all {
			text, proto, _ := strings.Cut(text, "/")
			name, target, _ := strings.Cut(text, ">")
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
				Name: name, Port: int32(80 + i), TargetPort: intstr.Parse(target), Protocol: endpoints.Protocol(corev1.Protocol(proto))})
		}
	}
}

type podEdit = func(*corev1.Pod)

// pod is one that web selects: running, and ready for an hour. Its uid is its name.
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

func list(pods ...*corev1.Pod) []*corev1.Pod { return pods }

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

func labeled(pairs ...string) podEdit {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{}
		for _, pair := range pairs {
			k, v, _ := strings.Cut(pair, "=")
			p.Labels[k] = v
		}
	}
}

// exposing gives the pod's container a port.
func exposing(name string, number int32, proto corev1.Protocol) podEdit {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: proto})
	}
}

// sidecar adds an init container with a port.
func sidecar(name string, number int32, policy *corev1.ContainerRestartPolicy) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "side", RestartPolicy: policy,
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}}})
	}
}

// snapshotOf is what was observed of web.
func snapshotOf(service *corev1.Service, stored *corev1.Endpoints, pods ...*corev1.Pod) snapshot {
	return snapshot{Key: webKey, Service: service, Endpoints: stored, Pods: pods}
}

// planned is what is done about a snapshot.
func planned(s snapshot) plan.Plan {
	_, p := planEndpoints(now, s)
	return p
}

// stored is what the server has after the snapshot's plan was carried out.
func stored(s snapshot) *corev1.Endpoints { return carriedOut(s, planned(s)) }

// carriedOut is what the server has after a plan was carried out.
func carriedOut(s snapshot, p plan.Plan) *corev1.Endpoints {
	for _, step := range p.Steps {
		var o plan.Object
		switch step := step.(type) {
		case plan.Create:
			o = step.Object
		case plan.Change:
			o = step.New
		default:
			return nil
		}
		e := o.DeepCopyObject().(*corev1.Endpoints)
		e.UID, e.ResourceVersion = "endpoints", e.ResourceVersion+"1"
		return e
	}
	return s.Endpoints
}

// render prints the subsets of Endpoints, a line for each: "http:8080/TCP> 10.0.0.1 !10.0.0.2".
func render(subsets []corev1.EndpointSubset) (lines []string) {
	for _, s := range subsets {
		var ports, addresses []string
		for _, p := range s.Ports {
			text := fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol)
			if p.AppProtocol != nil {
				text += "(" + *p.AppProtocol + ")"
			}
			ports = append(ports, text)
		}
		for _, a := range s.Addresses {
			addresses = append(addresses, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			addresses = append(addresses, "!"+a.IP)
		}
		lines = append(lines, strings.Join(ports, ",")+"> "+strings.Join(addresses, " "))
	}
	return lines
}

// verb is what a plan does.
func verb(p plan.Plan) string {
	if len(p.Steps) > 1 {
		return "too much"
	}
	for _, step := range p.Steps {
		switch step.(type) {
		case plan.Create:
			return "create"
		case plan.Change:
			return "change"
		case plan.Delete:
			return "delete"
		}
	}
	return ""
}
