package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A row is a sentence: a service like this with pods like these has these subsets.
func TestSubsets(t *testing.T) {
	noIP := func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }
	fail := func(p *corev1.Pod) { p.Status.Conditions = nil }
	noFamilies := families()
	v6IP := func(s *corev1.Service) { s.Spec.ClusterIP = "fd00::1" }
	tolerate := func(s *corev1.Service) {
		s.Annotations = map[string]string{"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}
	}
	appProtocol := func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = ptr.To("h2c") }
	dual := ips("10.0.0.9", "fd00:0::0a")
	always, never := ptr.To(corev1.ContainerRestartPolicyAlways), ptr.To(corev1.ContainerRestartPolicy("Never"))
	const tcp, udp = corev1.ProtocolTCP, corev1.ProtocolUDP

	for _, c := range []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    []string
	}{
		{"EP-10 pods of the namespace with all labels", web(selecting("app=web", "tier=x")), list(
			pod("a", "10.0.0.1"), pod("b", "10.0.0.2", labeled("app=web", "tier=x", "more=y")), pod("c", "10.0.0.3", labeled("tier=x")),
			pod("d", "10.0.0.4", labeled("app=web", "tier=x"), func(p *corev1.Pod) { p.Namespace = "bank" })),
			[]string{":8080/TCP> 10.0.0.2"}},
		{"EP-10 an empty selector selects all", web(selecting()), list(pod("a", "10.0.0.1", labeled())), []string{":8080/TCP> 10.0.0.1"}},
		{"EP-11 finished pods have no place", web(publishing),
			list(pod("a", "10.0.0.1", phase(corev1.PodSucceeded)), pod("b", "10.0.0.2", phase(corev1.PodFailed))), nil},
		{"EP-11 nor has one without IP", web(publishing), list(pod("a", "", noIP)), nil},
		{"EP-11 nor one that is being deleted", web(), list(pod("a", "10.0.0.1", terminating)), nil},
		{"EP-11 unless not ready addresses are published", web(publishing), list(pod("a", "10.0.0.1", terminating, unready)),
			[]string{":8080/TCP> 10.0.0.1"}},
		{"EP-12 a pending pod with IP counts", web(), list(pod("a", "10.0.0.1", phase(corev1.PodPending))),
			[]string{":8080/TCP> 10.0.0.1"}},
		{"EP-13 the first family of the service", web(families(corev1.IPv6Protocol, corev1.IPv4Protocol)), list(pod("a", "10.0.0.9", dual)),
			[]string{":8080/TCP> fd00::a"}},
		{"EP-13 without families, that of its IP", web(noFamilies, v6IP), list(pod("a", "10.0.0.9", dual)), []string{":8080/TCP> fd00::a"}},
		{"EP-13 without IP, that of the pod's", web(noFamilies, headless), list(pod("a", "10.0.0.9", ips("fd00::a", "10.0.0.9"))),
			[]string{":8080/TCP> 10.0.0.9"}},
		{"EP-14 addresses are printed canonically", web(families(corev1.IPv6Protocol)), list(pod("a", "FD00:0:0::00B")),
			[]string{":8080/TCP> fd00::b"}},
		{"EP-14 also those that nobody should write", web(), list(pod("a", "010.000.0.001")), []string{":8080/TCP> 10.0.0.1"}},
		{"EP-14 a pod without one of the family has no place", web(families(corev1.IPv6Protocol)), list(pod("a", "10.0.0.1")), nil},
		{"EP-14 podIP alone is not enough", web(), list(pod("a", "10.0.0.1", ips())), nil},
		{"EP-16 ready and not", web(), list(pod("a", "10.0.0.1"), pod("b", "10.0.0.2", unready), pod("c", "10.0.0.3", fail)),
			[]string{":8080/TCP> 10.0.0.1 !10.0.0.2 !10.0.0.3"}},
		{"EP-16 published all the same", web(publishing), list(pod("a", "10.0.0.1", unready)), []string{":8080/TCP> 10.0.0.1"}},
		{"EP-16 the old annotation has no effect", web(tolerate), list(pod("a", "10.0.0.1", unready)), []string{":8080/TCP> !10.0.0.1"}},
		{"EP-17 a named port by name and protocol", web(ports("dns>dns/UDP")),
			list(pod("a", "10.0.0.1", exposing("dns", 53, tcp), exposing("dns", 5353, udp), exposing("dns", 5454, udp))),
			[]string{"dns:5353/UDP> 10.0.0.1"}},
		{"EP-17 pods may differ in its number", web(ports("http>web")),
			list(pod("a", "10.0.0.1", exposing("web", 8080, tcp)), pod("b", "10.0.0.2", exposing("web", 9090, ""))),
			[]string{"http:8080/TCP> 10.0.0.1", "http:9090/TCP> 10.0.0.2"}},
		{"EP-17 a pod that lacks it is left out at that port only", web(ports("http>80", "m>metrics")),
			list(pod("a", "10.0.0.1", exposing("metrics", 9, tcp)), pod("b", "10.0.0.2")),
			[]string{"http:80/TCP> 10.0.0.1 10.0.0.2", "m:9/TCP> 10.0.0.1"}},
		{"EP-17 containers go before sidecars", web(ports("m>m")),
			list(pod("a", "10.0.0.1", sidecar("m", 1, always), exposing("m", 2, tcp))), []string{"m:2/TCP> 10.0.0.1"}},
		{"EP-17 sidecars count", web(ports("m>m")), list(pod("a", "10.0.0.1", sidecar("m", 1, always))), []string{"m:1/TCP> 10.0.0.1"}},
		{"EP-17 init containers do not", web(ports("m>m")), list(pod("a", "10.0.0.1", sidecar("m", 1, nil), sidecar("m", 1, never))), nil},
		{"EP-18 the protocol of the application is copied", web(appProtocol), list(pod("a", "10.0.0.1")),
			[]string{":8080/TCP(h2c)> 10.0.0.1"}},
		{"EP-19 headless without ports", web(headless, ports()), list(pod("a", "10.0.0.1"), pod("b", "10.0.0.2", unready)),
			[]string{"> 10.0.0.1 !10.0.0.2"}},
		{"EP-19 without ports and not headless", web(ports()), list(pod("a", "10.0.0.1")), nil},
		{"EP-20 ports with the same addresses share a subset", web(ports("b>2", "a>1")), pods(2),
			[]string{"a:1/TCP,b:2/TCP> 10.0.0.0 10.0.0.1"}},
		{"EP-20 two pods at one IP are two addresses", web(), list(pod("a", "10.0.0.1"), pod("b", "10.0.0.1", unready)),
			[]string{":8080/TCP> 10.0.0.1 !10.0.0.1"}},
		{"EP-20 a pod seen twice is one address, and not ready wins", web(), list(pod("a", "10.0.0.1"), pod("a", "10.0.0.1", unready)),
			[]string{":8080/TCP> !10.0.0.1"}},
		{"EP-21 without pods there are no subsets", web(), nil, nil},
		{"EP-22 addresses are ordered as text", web(), list(pod("a", "10.0.0.9"), pod("b", "10.0.0.10"), pod("c", "10.0.0.1")),
			[]string{":8080/TCP> 10.0.0.1 10.0.0.10 10.0.0.9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(snapshotOf(c.service, nil, c.pods...))
			if got := verb(p); got != "create" { // EP-21, EP-28: also when there are no addresses
				t.Fatalf("plan: %q, %s", got, p.Why)
			}
			e := p.Steps[0].(plan.Create).Object.(*corev1.Endpoints)
			if diff := cmp.Diff(c.want, render(e.Subsets)); diff != "" {
				t.Errorf("subsets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEP15Address(t *testing.T) {
	named := func(hostname, subdomain string) podEdit {
		return func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = hostname, subdomain }
	}
	for _, c := range []struct {
		name string
		edit podEdit
		want string
	}{
		{"EP-15 hostname in the service's domain", named("db-0", "web"), "db-0"},
		{"EP-15 hostname in another domain", named("db-0", "db"), ""},
		{"EP-15 domain without hostname", named("", "web"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := stored(snapshotOf(web(), nil, pod("a", "10.0.0.1", c.edit))).Subsets[0].Addresses[0]
			want := corev1.EndpointAddress{IP: "10.0.0.1", Hostname: c.want, NodeName: ptr.To("n1"),
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "a", UID: "a"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A row is a sentence: what is stored, once edited, leads to this.
func TestWrites(t *testing.T) {
	two := list(pod("a", "10.0.0.1"), pod("b", "10.0.0.2", unready))
	type edit = func(*corev1.Endpoints)
	annotated := func(key, value string) edit {
		return func(e *corev1.Endpoints) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, value) }
	}
	label := func(key, value string) edit {
		return func(e *corev1.Endpoints) { e.Labels[key] = value }
	}
	external := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	}
	noSelector := func(s *corev1.Service) { s.Spec.Selector = nil }
	gone := func(e *corev1.Endpoints) { e.Name = "" }

	for _, c := range []struct {
		name    string
		service *corev1.Service
		edit    edit
		want    string
		why     string
	}{
		{"EP-8 without service they are deleted", nil, nil, "delete", "no such service"},
		{"EP-8 without both nothing is done", nil, gone, "", ""},
		{"EP-7 records of leaders stay", nil, annotated(leaderRecord, "{}"), "", "leader"},
		{"EP-9 ExternalName is left alone", web(external), nil, "", "ExternalName"},
		{"EP-9 also without Endpoints", web(external), gone, "", "ExternalName"},
		{"EP-9 so is a service without selector", web(noSelector), nil, "", "no selector"},
		{"EP-28 absent ones are created", web(), gone, "create", "2 pods, 2 addresses"},
		{"EP-27 what is right is not written", web(), func(*corev1.Endpoints) {}, "", "up to date"},
		{"EP-24 the version of a target does not count", web(), func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses[0].TargetRef.ResourceVersion = "77"
		}, "", "up to date"},
		{"EP-24 nor how the addresses are divided", web(ports("x>1", "y>2")), func(e *corev1.Endpoints) {
			s := e.Subsets[0]
			e.Subsets = []corev1.EndpointSubset{
				{Ports: s.Ports[1:], Addresses: s.Addresses}, {Ports: s.Ports[1:], NotReadyAddresses: s.NotReadyAddresses},
				{Ports: s.Ports[:1], Addresses: s.Addresses, NotReadyAddresses: s.NotReadyAddresses}, {Ports: s.Ports[1:]}}
		}, "", "up to date"},
		{"EP-27 a hand-made address is taken out", web(), func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: "1.2.3.4"})
		}, "change", ""},
		{"EP-27 an address at the wrong list is moved", web(), func(e *corev1.Endpoints) {
			s := &e.Subsets[0]
			s.Addresses, s.NotReadyAddresses = append(s.Addresses, s.NotReadyAddresses...), nil
		}, "change", ""},
		{"EP-27 a missing node name is put in", web(), func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].NodeName = nil }, "change",
			""},
		{"EP-25 foreign labels are removed", web(), label("x", "y"), "change", ""},
		{"EP-25 a missing label is put in", web(), func(e *corev1.Endpoints) { delete(e.Labels, managedByLabel) }, "change", ""},
		{"EP-25 a wrong headless label is repaired", web(), label(corev1.IsHeadlessService, ""), "change", ""},
		{"EP-26 foreign annotations are no reason to write", web(), annotated("x", "y"), "", "up to date"},
		{"EP-30 nor is a trigger time", web(), annotated(triggerTime, "2001-01-01T00:00:00Z"), "", "up to date"},
		{"EP-32 an over-capacity mark without reason is removed", web(), annotated(overCapacity, truncated), "change", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := c.service
			if from == nil || from.Spec.Selector == nil || from.Spec.Type == corev1.ServiceTypeExternalName {
				from = web()
			}
			e := stored(snapshotOf(from, nil, two...))
			if c.edit != nil {
				c.edit(e)
			}
			if e.Name == "" {
				e = nil
			}
			p := planned(snapshotOf(c.service, e, two...))
			if verb(p) != c.want || !strings.Contains(p.Why, c.why) {
				t.Fatalf("plan: %q, why %q; want %q, %q", verb(p), p.Why, c.want, c.why)
			}
			if c.want == "change" {
				after := p.Steps[0].(plan.Change)
				if after.New.GetResourceVersion() != e.ResourceVersion || after.Old != plan.Object(e) || after.Why == "" { // EP-28
					t.Errorf("change %v", after)
				}
				if again := planned(snapshotOf(c.service, after.New.(*corev1.Endpoints), two...)); !again.Empty() {
					t.Errorf("once more: %s", again.Why)
				}
			}
		})
	}
}

func TestMEND19CreatedObject(t *testing.T) { // EP-25, EP-28, EP-30, EP-38
	service := web(func(s *corev1.Service) {
		s.Labels[managedByLabel], s.Labels[corev1.IsHeadlessService] = "me", "yes"
		s.Annotations = map[string]string{"note": "not copied"} // EP-26
	})
	s := snapshotOf(service, nil)
	s.Trigger = time.Date(2024, 5, 1, 12, 0, 0, 1e6, time.FixedZone("", 2*3600))
	got := planned(s).Steps[0].(plan.Create)
	want := plan.Create{
		Object: &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
			Labels:      map[string]string{"team": "a", managedByLabel: "endpoint-controller"},
			Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2024-05-01T10:00:00.001Z"}}},
		Why: "there are none yet", Unowned: true,
		Events: plan.Events{Failed: plan.Event{Type: "Warning", Reason: "FailedToCreateEndpoint",
			Message: "Failed to create endpoint for service shop/web: {error}"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if o := owner(s); o.GetNamespace() != "shop" || o.GetName() != "web" { // EP-38
		t.Errorf("events land on %s/%s", o.GetNamespace(), o.GetName())
	}
	for _, c := range []struct {
		ip   string
		want bool
	}{{"None", true}, {"", true}, {"10.96.0.1", false}} {
		service.Spec.ClusterIP = c.ip
		if value, got := labelsFor(service)[corev1.IsHeadlessService]; got != c.want || value != "" {
			t.Errorf("EP-25 clusterIP %q: headless label %t %q", c.ip, got, value)
		}
	}
}

func TestChangedObject(t *testing.T) { // EP-26, EP-30, EP-38
	e := stored(snapshotOf(web(), nil))
	e.Annotations = map[string]string{"theirs": "x", triggerTime: "2001-01-01T00:00:00Z"}
	got := planned(snapshotOf(web(), e, pod("a", "10.0.0.1"))).Steps[0].(plan.Change)
	if diff := cmp.Diff(map[string]string{"theirs": "x"}, got.New.GetAnnotations()); diff != "" {
		t.Errorf("EP-30 the old trigger time goes: %s", diff)
	}
	want := plan.Event{Type: "Warning", Reason: "FailedToUpdateEndpoint", Message: "Failed to update endpoint shop/web: {error}"}
	if got.Events.Failed != want || got.Events.Done.Reason != "" { // EP-39
		t.Errorf("events %v", got.Events)
	}
}

func TestTruncation(t *testing.T) {
	event := func(s snapshot) string {
		switch step := planned(s).Steps[0].(type) {
		case plan.Create:
			return step.Events.Done.Reason + step.Events.Done.Message
		case plan.Change:
			return step.Events.Done.Reason
		}
		return ""
	}
	count := func(e *corev1.Endpoints) (ready, unready int) {
		for _, s := range e.Subsets {
			ready, unready = ready+len(s.Addresses), unready+len(s.NotReadyAddresses)
		}
		return ready, unready
	}
	all := pods(1500)
	s := snapshotOf(web(), nil, all...)
	if got := event(s); !strings.HasPrefix(got, "TruncatedEndpoints") || !strings.Contains(got, "1000 of 1500") {
		t.Errorf("event on creation: %q", got)
	}
	e := stored(s)
	if r, u := count(e); r != 1000 || u != 0 || e.Annotations[overCapacity] != "truncated" {
		t.Fatalf("EP-32 %d ready, %d not, %v", r, u, e.Annotations)
	}
	if p := planned(snapshotOf(web(), e, all...)); !p.Empty() { // EP-34
		t.Errorf("EP-34 %s", p.Why)
	}

	// One of those that are in goes, another takes its place at once; the other 999 stay. No second event.
	gone := e.Subsets[0].Addresses[10].IP
	rest := list()
	for _, p := range all {
		if p.Status.PodIP != gone {
			rest = append(rest, p)
		}
	}
	s = snapshotOf(web(), e, rest...)
	if got := event(s); got != "" {
		t.Errorf("a second event: %q", got)
	}
	if kept := common(e, stored(s)); kept != 999 {
		t.Errorf("%d addresses stayed", kept)
	}
	if r, _ := count(stored(s)); r != 1000 {
		t.Errorf("%d ready", r)
	}

	// The ones that are in stay when others with lower IPs come.
	few := stored(snapshotOf(web(), nil, all[600:1500]...))
	if kept := common(few, stored(snapshotOf(web(), few, all...))); kept != 900 {
		t.Errorf("%d of 900 addresses stayed", kept)
	}

	// Ready ones go before others (EP-33).
	for i, p := range all {
		if i%2 == 0 {
			unready(p)
		}
	}
	e = stored(snapshotOf(web(), e, all...))
	if r, u := count(e); r != 750 || u != 250 {
		t.Errorf("EP-33 %d ready, %d not", r, u)
	}

	// When all fit again, the mark goes.
	e = stored(snapshotOf(web(), e, all[:1000]...))
	if r, u := count(e); r+u != 1000 || e.Annotations[overCapacity] != "" {
		t.Errorf("EP-32 %d addresses, %v", r+u, e.Annotations)
	}
}

func TestTruncationCountsEachSubset(t *testing.T) { // EP-32
	all := append(pods(400, exposing("m", 9, corev1.ProtocolTCP)), pods(900)[400:]...)
	s := snapshotOf(web(ports("http>80", "m>m")), nil, all...) // 900 at http, 400 of them at m
	e := stored(s)
	if n := endpoints.Size(e.Subsets); n > 1000 || n < 999 || e.Annotations[overCapacity] == "" {
		t.Errorf("%d addresses, %v", n, e.Annotations)
	}
	s.Endpoints = e
	if p := planned(s); !p.Empty() {
		t.Errorf("EP-34 %s", p.Why)
	}
}

func common(a, b *corev1.Endpoints) (n int) {
	in := map[endpoints.ID]bool{}
	for _, e := range endpoints.Unpack(a.Subsets) {
		in[endpoints.IDOf(e)] = true
	}
	for _, e := range endpoints.Unpack(b.Subsets) {
		if in[endpoints.IDOf(e)] {
			n++
		}
	}
	return n
}
