package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

func (b *bench) service(name string, edits ...func(*corev1.Service)) {
	b.Helper()
	if err := b.createService(name, edits...); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) createService(name string, edits ...func(*corev1.Service)) error {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"mark": name}}}
	s.Spec.Selector = map[string]string{"app": "web"}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt(8080)}}
	for _, edit := range edits {
		edit(s)
	}
	_, err := b.Client.CoreV1().Services(b.ns).Create(b.Context(), s, metav1.CreateOptions{})
	return err
}

// loosePod makes a pod that no scheduler binds and no kubelet plays: the test says how it is.
func (b *bench) loosePod(ctx context.Context, name string, port int32, ips ...string) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web", "pod": name}}}
	p.Spec.SchedulerName = "nobody"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}}}}
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ips[0],
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}}
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
	return b.podStatus(ctx, name, status)
}

func (b *bench) podStatus(ctx context.Context, name string, status corev1.PodStatus) error {
	document, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = b.Client.CoreV1().Pods(b.ns).Patch(ctx, name, types.StrategicMergePatchType, document, metav1.PatchOptions{}, "status")
	return err
}

func (b *bench) endpoints(name string) *corev1.Endpoints {
	b.Helper()
	e, err := b.Client.CoreV1().Endpoints(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// waitEndpoints waits until the Endpoints read as wanted: "ready 1.2.3.4:80 unready 1.2.3.5:80", sorted.
func (b *bench) waitEndpoints(name string, want ...string) {
	b.Helper()
	b.wait(fmt.Sprintf("the Endpoints %s are %v", name, want), func() error {
		e := b.endpoints(name)
		if e == nil {
			return fmt.Errorf("there are none")
		}
		got := []string{}
		for _, s := range e.Subsets {
			ports := []string{}
			for _, p := range s.Ports {
				ports = append(ports, fmt.Sprint(p.Port))
			}
			for _, a := range s.Addresses {
				got = append(got, "ready "+a.IP+":"+strings.Join(ports, ","))
			}
			for _, a := range s.NotReadyAddresses {
				got = append(got, "unready "+a.IP+":"+strings.Join(ports, ","))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

func TestEndpoints(t *testing.T) {
	b := share(t)
	b.service("web")
	b.waitEndpoints("web") // EP-21
	for i := range 3 {
		if err := b.loosePod(t.Context(), fmt.Sprintf("p%d", i), 8080, fmt.Sprintf("10.9.0.%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	b.waitEndpoints("web", "ready 10.9.0.0:8080", "ready 10.9.0.1:8080", "ready 10.9.0.2:8080")
	e := b.endpoints("web")
	if e.Labels["endpoints.kubernetes.io/managed-by"] != "endpoint-controller" || e.Labels["mark"] != "web" || len(e.Labels) != 2 {
		t.Errorf("EP-25: labels %v", e.Labels)
	}
	if ref := e.Subsets[0].Addresses[0].TargetRef; ref == nil || ref.Kind != "Pod" || ref.Name != "p0" || ref.ResourceVersion != "" {
		t.Errorf("EP-15: %+v", ref)
	}
	unready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}
	if err := b.podStatus(t.Context(), "p1", unready); err != nil {
		t.Fatal(err)
	}
	b.waitEndpoints("web", "ready 10.9.0.0:8080", "ready 10.9.0.2:8080", "unready 10.9.0.1:8080") // EP-16

	b.service("named", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
	b.service("headless", func(s *corev1.Service) { s.Spec.ClusterIP = "None"; s.Spec.Ports = nil })
	b.service("other", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} })
	b.service("none", func(s *corev1.Service) { s.Spec.Selector = nil })
	if err := b.loosePod(t.Context(), "p3", 9090, "10.9.0.3", "fd00::3"); err != nil { // EP-13: one family
		t.Fatal(err)
	}
	b.waitEndpoints("named", "ready 10.9.0.0:8080", "ready 10.9.0.2:8080", "ready 10.9.0.3:9090", "unready 10.9.0.1:8080") // EP-17
	b.waitEndpoints("headless", "ready 10.9.0.0:", "ready 10.9.0.2:", "ready 10.9.0.3:", "unready 10.9.0.1:")              // EP-19
	if _, ok := b.endpoints("headless").Labels["service.kubernetes.io/headless"]; !ok {
		t.Errorf("EP-25: %v", b.endpoints("headless").Labels)
	}
	b.waitEndpoints("other")
	b.Kubectl(t, "-n", b.ns, "patch", "service", "other", "-p", `{"spec":{"selector":{"app":"web"}}}`)
	b.waitEndpoints("other", "ready 10.9.0.0:8080", "ready 10.9.0.2:8080", "ready 10.9.0.3:8080", "unready 10.9.0.1:8080")
	b.Kubectl(t, "-n", b.ns, "delete", "pod", "p0", "--grace-period=0", "--force")
	b.waitEndpoints("web", "ready 10.9.0.2:8080", "ready 10.9.0.3:8080", "unready 10.9.0.1:8080")
	b.Kubectl(t, "-n", b.ns, "delete", "service", "web")
	b.wait("EP-8: the Endpoints go with the service", func() error {
		if b.endpoints("web") != nil {
			return fmt.Errorf("they are there")
		}
		return nil
	})
	if b.endpoints("none") != nil {
		t.Error("EP-9: a service without selector has got Endpoints")
	}
}

func TestEndpointsOfBothFamilies(t *testing.T) { // EP-13, EP-14
	b := share(t)
	family := func(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, families }
	}
	b.service("four", family(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	b.service("six", family(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol))
	b.service("six-only", family(corev1.IPFamilyPolicySingleStack, corev1.IPv6Protocol))
	for name, ips := range map[string][]string{
		"both": {"10.9.0.1", "fd00::1"}, "six-first": {"fd00::2", "10.9.0.2"}, "no-six": {"10.9.0.3"}, "no-four": {"fd00::4"},
	} {
		if err := b.loosePod(t.Context(), name, 8080, ips...); err != nil {
			t.Fatal(err)
		}
	}
	b.waitEndpoints("four", "ready 10.9.0.1:8080", "ready 10.9.0.2:8080", "ready 10.9.0.3:8080")
	b.waitEndpoints("six", "ready fd00::1:8080", "ready fd00::2:8080", "ready fd00::4:8080")
	b.waitEndpoints("six-only", "ready fd00::1:8080", "ready fd00::2:8080", "ready fd00::4:8080")
}

// TestEndpointsLeftOver has a manager of its own, because one looks for them when it starts, beside the shared one: two of them do
// no harm.
func TestEndpointsLeftOver(t *testing.T) { // EP-7, EP-9
	b := share(t)
	for name, annotations := range map[string]map[string]string{
		"left": nil, "lock": {"control-plane.alpha.kubernetes.io/leader": "{}"}, "by-hand": nil,
	} {
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.service("by-hand", func(s *corev1.Service) { s.Spec.Selector = nil })
	b.Manager(t, "--controllers=endpoint")
	b.wait("what no service has is gone", func() error {
		if b.endpoints("left") != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	if b.endpoints("lock") == nil || b.endpoints("by-hand") == nil {
		t.Error("a leader-election record, or Endpoints of a service without selector, were deleted")
	}
}

func TestEndpointsOverCapacity(t *testing.T) { // EP-32, EP-33, EP-34
	b := share(t)
	b.user().Each(1010, func(i int) error {
		return b.loosePod(t.Context(), fmt.Sprintf("p%d", i), 8080, fmt.Sprintf("10.8.%d.%d", i/250, i%250))
	})
	b.service("web") // now, so that the Endpoints do not change with each pod
	defer b.Kubectl(t, "-n", b.ns, "delete", "service", "web")
	addresses := func() (ready []string, e *corev1.Endpoints) {
		if e = b.endpoints("web"); e != nil {
			for _, s := range e.Subsets {
				for _, a := range s.Addresses {
					ready = append(ready, a.IP)
				}
			}
		}
		return ready, e
	}
	b.wait("there are 1000 addresses, and it says so", func() error {
		if ready, e := addresses(); len(ready) != 1000 || e.Annotations["endpoints.kubernetes.io/over-capacity"] != "truncated" {
			return fmt.Errorf("%d addresses", len(ready))
		}
		return nil
	})
	before, e := addresses()
	victim := e.Subsets[0].Addresses[0].TargetRef.Name
	b.Kubectl(t, "-n", b.ns, "delete", "pod", victim, "--grace-period=0", "--force")
	b.wait("the dead address is gone, all others stay", func() error {
		after, _ := addresses()
		gone := 0
		for _, ip := range before {
			if !slices.Contains(after, ip) {
				gone++
			}
		}
		if gone != 1 || len(after) != 1000 {
			return fmt.Errorf("%d of %d are gone", gone, len(after))
		}
		return nil
	})
}

func TestEndpointsAreCleanedUpWhenDisabled(t *testing.T) {
	b := alone(t)
	m := b.Manager(t, "--controllers=endpoint")
	b.service("web")
	b.waitEndpoints("web")
	m.Stop(t)
	own := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Manager(t, "--controllers=*,-endpoint", "--endpoint-cleanup-when-disabled=true")
	b.wait("those of the controller are gone", func() error {
		if b.endpoints("web") != nil {
			return fmt.Errorf("they are there")
		}
		return nil
	})
	if b.endpoints("by-hand") == nil {
		t.Error("those made by hand are gone, too")
	}
}
