package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the mirroring controller serves those who still write them

const sliceControllers = "--controllers=endpointslice,endpointslicemirroring,endpoint"

// slices returns the slices of a Service, by name.
func (b *bench) slices(service string) []discoveryv1.EndpointSlice {
	b.Helper()
	list, err := b.Client.DiscoveryV1().EndpointSlices(b.ns).List(b.Context(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// waitSlices waits until the slices read as wanted, sorted: "IPv4:8080 10.0.0.1 !10.0.0.2@zone".
func (b *bench) waitSlices(service string, want ...string) {
	b.Helper()
	b.wait(fmt.Sprintf("%s has the slices %v", service, want), func() error {
		var got []string
		for _, s := range b.slices(service) {
			line := string(s.AddressType)
			for _, p := range s.Ports {
				line += fmt.Sprint(":", ptr.Deref(p.Port, 0))
			}
			var all []string
			for _, e := range s.Endpoints {
				text := strings.Join(e.Addresses, "+")
				if !ptr.Deref(e.Conditions.Ready, false) {
					text = "!" + text
				}
				if e.Hints != nil {
					for _, z := range e.Hints.ForZones {
						text += "@" + z.Name
					}
				}
				all = append(all, text)
			}
			slices.Sort(all)
			got = append(got, strings.TrimSpace(line+" "+strings.Join(all, " ")))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

func families(policy corev1.IPFamilyPolicy, all ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, all }
}

func TestEndpointSlices(t *testing.T) { // EPS-15, EPS-17, EPS-24, EPS-26, EPS-29, EPS-41
	b := share(t)
	b.service("web", families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	b.waitSlices("web", "IPv4", "IPv6")
	if err := b.loosePod(t.Context(), "a", 8080, "10.9.0.1", "fd00::1"); err != nil {
		t.Fatal(err)
	}
	b.user().Each(20, func(i int) error {
		return b.loosePod(t.Context(), fmt.Sprint("more-", i), 8080, fmt.Sprint("10.9.1.", i))
	})
	b.wait("21 endpoints are in two slices of IPv4, one in one of IPv6", func() error {
		n := map[discoveryv1.AddressType]int{}
		all := b.slices("web")
		for _, s := range all {
			n[s.AddressType] += len(s.Endpoints)
		}
		if len(all) != 3 || n["IPv4"] != 21 || n["IPv6"] != 1 {
			return fmt.Errorf("%d slices: %v", len(all), n)
		}
		return nil
	})
	unready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.Now()}}}
	if err := b.podStatus(t.Context(), "a", unready); err != nil {
		t.Fatal(err)
	}
	b.wait("a pod is not ready any more in both families", func() error {
		n := 0
		for _, s := range b.slices("web") {
			for _, e := range s.Endpoints {
				if e.TargetRef.Name == "a" && !*e.Conditions.Ready && !*e.Conditions.Serving && !*e.Conditions.Terminating {
					n++
				}
			}
		}
		if n != 2 {
			return fmt.Errorf("in %d slices", n)
		}
		return nil
	})
	b.Kubectl(t, "-n", b.ns, "delete", "pod", "--selector=pod!=a", "--force", "--grace-period=0")
	b.waitSlices("web", "IPv4:8080 !10.9.0.1", "IPv6:8080 !fd00::1")
	b.Kubectl(t, "-n", b.ns, "delete", "endpointslices", "-l", "kubernetes.io/service-name=web")
	b.waitSlices("web", "IPv4:8080 !10.9.0.1", "IPv6:8080 !fd00::1")
	edited := b.slices("web")[0]
	edited.Endpoints = nil
	if _, err := b.Client.DiscoveryV1().EndpointSlices(b.ns).Update(t.Context(), &edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.waitSlices("web", "IPv4:8080 !10.9.0.1", "IPv6:8080 !fd00::1")

	// A Service that takes the place of another one of its name adopts nothing.
	if err := b.Client.CoreV1().Services(b.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.service("web")
	s, err := b.Client.CoreV1().Services(b.ns).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.wait("the slices belong to the new Service", func() error {
		all := b.slices("web")
		for i := range all {
			if !metav1.IsControlledBy(&all[i], s) {
				return fmt.Errorf("%s does not", all[i].Name)
			}
		}
		if len(all) != 1 {
			return fmt.Errorf("%d slices", len(all))
		}
		return nil
	})
}

func TestEndpointSlicesFollowNodes(t *testing.T) { // EPS-31, EPS-49, EPS-61, EPS-80
	b := share(t)
	b.service("web", func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
	})
	name := "zoned-" + b.ns
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}}
	p.Spec.NodeName, p.Spec.SchedulerName = name, "nobody"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	up := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.9.0.1", PodIPs: []corev1.PodIP{{IP: "10.9.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}}
	if err := b.podStatus(t.Context(), "a", up); err != nil {
		t.Fatal(err)
	}
	b.waitSlices("web", "IPv4")
	b.wait("an event tells that the node is missing", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(t.Context(),
			metav1.ListOptions{FieldSelector: "reason=FailedToUpdateEndpointSlices"})
		want := fmt.Sprintf("Error updating Endpoint Slices for Service %[1]s/web: skipping Pod a for Service %[1]s/web: Node %s Not Found",
			b.ns, name)
		if err == nil && !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Message == want }) {
			return fmt.Errorf("%d events", len(list.Items))
		}
		return err
	})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := b.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	b.waitSlices("web", "IPv4:8080 10.9.0.1")
	b.Kubectl(t, "label", "node", name, corev1.LabelTopologyZone+"=east")
	b.waitSlices("web", "IPv4:8080 10.9.0.1@east")
}

func TestMirroredEndpoints(t *testing.T) { // ESM-4, ESM-6, ESM-9, ESM-13
	b := share(t)
	b.service("hand", families(corev1.IPFamilyPolicyPreferDualStack), func(s *corev1.Service) { s.Spec.Selector = nil })
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "hand"}, Subsets: []corev1.EndpointSubset{{
		Ports:             []corev1.EndpointPort{{Port: 8080}},
		Addresses:         []corev1.EndpointAddress{{IP: "10.9.1.1"}, {IP: "fd00::1"}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.9.1.2"}, {IP: "10.9.1.3"}},
	}}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.waitSlices("hand", "IPv4:8080 !10.9.1.2 10.9.1.1", "IPv6:8080 fd00::1")
	b.Kubectl(t, "-n", b.ns, "label", "endpoints", "hand", discoveryv1.LabelSkipMirror+"=true")
	b.waitSlices("hand")
	b.Kubectl(t, "-n", b.ns, "label", "endpoints", "hand", discoveryv1.LabelSkipMirror+"-")
	b.waitSlices("hand", "IPv4:8080 !10.9.1.2 10.9.1.1", "IPv6:8080 fd00::1")
	patch := []byte(`{"spec":{"selector":{"app":"nothing"}}}`)
	if _, err := b.Client.CoreV1().Services(b.ns).Patch(t.Context(), "hand", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.waitSlices("hand", "IPv4", "IPv6") // of the Service itself now
}

// Slices as the original leaves them are taken over without a write.
func TestEndpointSlicesAreTakenOver(t *testing.T) { // EPS-30, EPS-32, EPS-45..47, ESM-14, ESM-20..22
	b := alone(t)
	b.service("web")
	b.service("hand", func(s *corev1.Service) { s.Spec.Selector = nil })
	if err := b.loosePod(t.Context(), "a", 8080, "10.9.0.1"); err != nil {
		t.Fatal(err)
	}
	service, err1 := b.Client.CoreV1().Services(b.ns).Get(t.Context(), "web", metav1.GetOptions{})
	pod, err2 := b.Client.CoreV1().Pods(b.ns).Get(t.Context(), "a", metav1.GetOptions{})
	hand, err3 := b.Client.CoreV1().Endpoints(b.ns).Create(t.Context(), &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "hand", Labels: map[string]string{"mark": "hand"}},
		Subsets: []corev1.EndpointSubset{{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080}},
			Addresses: []corev1.EndpointAddress{{IP: "10.9.1.1"}}}},
	}, metav1.CreateOptions{})
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ports := []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}}
	original := func(service, manager string, owner metav1.Object, kind string, e discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: service + "-",
				Labels: map[string]string{"mark": service, discoveryv1.LabelServiceName: service,
					discoveryv1.LabelManagedBy: manager},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind(kind))},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: ports, Endpoints: []discoveryv1.Endpoint{e},
		}
	}
	first := original("web", "endpointslice-controller.k8s.io", service, "Service", discoveryv1.Endpoint{
		Addresses:  []string{"10.9.0.1"},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: b.ns, Name: "a", UID: pod.UID},
	})
	first.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}
	second := original("hand", "endpointslicemirroring-controller.k8s.io", hand, "Endpoints", discoveryv1.Endpoint{
		Addresses: []string{"10.9.1.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
	})
	for _, s := range []*discoveryv1.EndpointSlice{first, second} {
		if _, err := b.Client.DiscoveryV1().EndpointSlices(b.ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := []discoveryv1.EndpointSlice{b.slices("web")[0], b.slices("hand")[0]}
	b.Manager(t, sliceControllers)
	b.service("later") // what shows that the controllers are at work
	b.waitSlices("later", "IPv4:8080 10.9.0.1")
	cluster.Always(t, 2*time.Second, "nothing is written", func() error {
		for i, service := range []string{"web", "hand"} {
			if now := b.slices(service); len(now) != 1 || now[0].ResourceVersion != before[i].ResourceVersion {
				return fmt.Errorf("%s: %+v", service, now)
			}
		}
		return nil
	})
}
