package endpointslice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A row is a sentence: for such a service and such pods, the slices say this.
func TestSlices(t *testing.T) {
	p8080 := func(text string) string { return "IPv4 :8080/TCP> " + text }
	for _, c := range []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    []string
	}{
		{"EPS-41 no pods: one empty slice", web(), nil, []string{"IPv4 >"}},
		{"EPS-41 no pods: one empty slice for each family", web(dual), nil, []string{"IPv4 >", "IPv6 >"}},
		{"EPS-28 a pod", web(), []*corev1.Pod{pod("a", "10.0.0.1")}, []string{p8080("10.0.0.1")}},
		{"EPS-28 an address as older servers let it pass", web(), []*corev1.Pod{pod("a", "010.0.0.01")}, []string{p8080("10.0.0.1")}},
		{"EPS-28 podIP alone is not enough", web(), []*corev1.Pod{pod("a", "10.0.0.1", ips())}, []string{"IPv4 >"}},
		{"EPS-24 both families", web(dual), []*corev1.Pod{pod("a", "10.0.0.1", ips("10.0.0.1", "fd00::1"))},
			[]string{p8080("10.0.0.1"), "IPv6 :8080/TCP> fd00::1"}},
		{"EPS-24 the family of the clusterIP", web(func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, "fd00::9" }),
			[]*corev1.Pod{pod("a", "10.0.0.1", ips("10.0.0.1", "fd00::1"))}, []string{"IPv6 :8080/TCP> fd00::1"}},
		{"EPS-24 neither said: both", web(headless, func(s *corev1.Service) { s.Spec.IPFamilies = nil }),
			[]*corev1.Pod{pod("a", "10.0.0.1")}, []string{p8080("10.0.0.1"), "IPv6 >"}},
		{"EPS-27 finished pods are left out", web(),
			[]*corev1.Pod{pod("a", "10.0.0.1", phase(corev1.PodFailed)), pod("b", "10.0.0.2", phase(corev1.PodSucceeded))},
			[]string{"IPv4 >"}},
		{"EPS-27, EPS-29 terminating pods are there, serving while they are ready", web(),
			[]*corev1.Pod{pod("a", "10.0.0.1", terminating), pod("b", "10.0.0.2", terminating, unready)},
			[]string{p8080("+~!10.0.0.1 ~!10.0.0.2")}},
		{"EPS-29 pods that are not ready", web(), []*corev1.Pod{pod("a", "10.0.0.1", unready)}, []string{p8080("!10.0.0.1")}},
		{"EPS-29 are published as ready on demand", web(publishing),
			[]*corev1.Pod{pod("a", "10.0.0.1", unready), pod("b", "10.0.0.2", terminating)}, []string{p8080("10.0.0.1 +~10.0.0.2")}},
		{"EPS-31 a pod whose node is unknown waits, others do not", web(),
			[]*corev1.Pod{pod("a", "10.0.0.1", on("gone")), pod("b", "10.0.0.2")}, []string{p8080("10.0.0.2")}},
		{"EPS-31 unless addresses are published in any case", web(publishing), []*corev1.Pod{pod("a", "10.0.0.1", on("gone"))},
			[]string{p8080("10.0.0.1")}},
		{"EPS-32 ports by name, a slice for each number", web(named),
			[]*corev1.Pod{pod("a", "10.0.0.1", exposing(8080)), pod("b", "10.0.0.2", exposing(9090)), pod("c", "10.0.0.3", exposing(8080))},
			[]string{"IPv4 http:8080/TCP> 10.0.0.1 10.0.0.3", "IPv4 http:9090/TCP> 10.0.0.2"}},
		{"EPS-32 a port that a pod does not have", web(named), []*corev1.Pod{pod("a", "10.0.0.1")}, []string{"IPv4 > 10.0.0.1"}},
		{"EPS-32 headless without ports", web(headless, func(s *corev1.Service) { s.Spec.Ports = nil }),
			[]*corev1.Pod{pod("a", "10.0.0.1")}, []string{"IPv4 > 10.0.0.1"}},
		{"EPS-21 pods that are not selected", web(), []*corev1.Pod{pod("a", "10.0.0.1", func(p *corev1.Pod) { p.Labels = nil })},
			[]string{"IPv4 >"}},
		{"EPS-49 the own zone", web(distributed("PreferSameZone")),
			[]*corev1.Pod{pod("a", "10.0.0.1"), pod("b", "10.0.0.2", on("n3")), pod("c", "10.0.0.3", unready),
				pod("d", "10.0.0.4", on("n4"))},
			[]string{p8080("10.0.0.1@a 10.0.0.2@b !10.0.0.3 10.0.0.4")}},
		{"EPS-49 the old name of the own zone", web(distributed("PreferClose")), []*corev1.Pod{pod("a", "10.0.0.1")},
			[]string{p8080("10.0.0.1@a")}},
		{"EPS-49 the own node", web(distributed("PreferSameNode")), []*corev1.Pod{pod("a", "10.0.0.1")}, []string{p8080("10.0.0.1@a@n1")}},
		{"EPS-50 another value", web(distributed("x")), []*corev1.Pod{pod("a", "10.0.0.1")}, []string{p8080("10.0.0.1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := render(stored(snapshotOf(c.service, nil, c.pods...)))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A row is a sentence: pods like these, some of them on nodes that do not exist, lead to this warning, after the writes, or to none.
func TestEPS31EPS61NodeNotFound(t *testing.T) {
	const skipping = "Error updating Endpoint Slices for Service shop/web: skipping Pod %s for Service shop/web: Node gone Not Found%s"
	for _, c := range []struct {
		name string
		edit svcEdit
		pods []*corev1.Pod
		want string
	}{
		{"one", nil, []*corev1.Pod{pod("b", "10.0.0.2"), pod("a", "10.0.0.1", on("gone"))}, fmt.Sprintf(skipping, "a", "")},
		{"three", dual,
			[]*corev1.Pod{pod("c", "10.0.0.3", on("gone")), pod("b", "10.0.0.2", on("gone")), pod("d", "10.0.0.4", on("other"))},
			fmt.Sprintf(skipping, "b", ", and 2 more pods without a Node")},
		{"one that has finished", nil, []*corev1.Pod{pod("a", "10.0.0.1", on("gone"), phase(corev1.PodFailed))}, ""},
		{"one that has no node yet", nil, []*corev1.Pod{pod("a", "10.0.0.1", on(""))}, ""},
		{"addresses are published in any case", publishing, []*corev1.Pod{pod("a", "10.0.0.1", on("gone"))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(web(), nil, c.pods...)
			if c.edit != nil {
				c.edit(s.Service)
			}
			steps := planSlices(now, s).Steps
			want := plan.Step(plan.RecordEvent{Object: s.Service,
				Event: plan.Event{Type: "Warning", Reason: "FailedToUpdateEndpointSlices", Message: c.want}})
			if got := steps[len(steps)-1]; c.want != "" {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			} else if _, told := got.(plan.RecordEvent); told {
				t.Errorf("%+v", got)
			}
			if got := missesNodes(s); got != (c.want != "") {
				t.Errorf("lacksNodes: %t", got)
			}
		})
	}
}

// A new slice has all that others look for (EPS-6, EPS-30, EPS-32, EPS-45..47).
func TestEPS6EPS45NewSlice(t *testing.T) {
	service := web(func(s *corev1.Service) {
		s.Labels = map[string]string{"team": "a", discoveryv1.LabelManagedBy: "x", corev1.IsHeadlessService: "y"}
		s.Annotations = map[string]string{"note": "not copied"}
		s.Spec.Ports[0].AppProtocol = ptr.To("h2c")
	})
	s := snapshotOf(service, nil, pod("a", "10.0.0.1", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "a", "web" }))
	s.Trigger = ago(time.Minute).Time
	step := planSlices(now, s).Steps[0].(plan.Each).Sequences[0][0].(plan.Create)
	got := step.Object.(*discoveryv1.EndpointSlice)
	want := &discoveryv1.EndpointSlice{
		AddressType: "IPv4",
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{"10.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			Hostname:   ptr.To("a"), NodeName: ptr.To("n1"), Zone: ptr.To("a"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "a", UID: "a"},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP),
			AppProtocol: ptr.To("h2c")}},
	}
	want.Namespace, want.GenerateName = "shop", "web-"
	want.Labels = map[string]string{"team": "a", "kubernetes.io/service-name": "web",
		"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
	want.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T11:59:00Z"}
	want.OwnerReferences = got.OwnerReferences
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if refs := got.OwnerReferences; len(refs) != 1 || refs[0].APIVersion != "v1" || refs[0].Kind != "Service" || refs[0].UID != "web" ||
		!*refs[0].Controller || !*refs[0].BlockOwnerDeletion {
		t.Errorf("EPS-45: %+v", refs)
	}
	if e := step.Events.Failed; e.Reason != "FailedToUpdateEndpointSlices" ||
		e.Message != "Error updating Endpoint Slices for Service shop/web: {error}" {
		t.Errorf("EPS-61: %+v", e)
	}
	headless(service)
	if _, ok := labelsFor(service)[corev1.IsHeadlessService]; !ok {
		t.Error("EPS-46: no label of headless services")
	}
}

// A row is a sentence: from slices that fit one state to another state takes these writes.
func TestWrites(t *testing.T) {
	base := pods(250)
	with := func(i int, edits ...podEdit) []*corev1.Pod {
		all := append([]*corev1.Pod{}, base...)
		all[i] = all[i].DeepCopy()
		for _, edit := range edits {
			edit(all[i])
		}
		return all
	}
	more := func(n int) []*corev1.Pod { return pods(250 + n) }
	for _, c := range []struct {
		name   string
		before []*corev1.Pod
		after  []*corev1.Pod
		edit   svcEdit
		want   writes
	}{
		{"nothing has changed", base, base, nil, writes{}},
		{"EPS-35 a pod is not ready any more", base, with(7, unready), nil, writes{updates: 1}},
		{"EPS-34 a pod has got another address", base, with(7, ips("10.9.9.9")), nil, writes{updates: 1}},
		{"EPS-34 a pod was replaced by one of its name", base, with(7, func(p *corev1.Pod) { p.UID = "new" }), nil, writes{updates: 1}},
		{"a pod has gone", base, base[1:], nil, writes{updates: 1}},
		{"EPS-37 one more pod goes where there is room", base, more(1), nil, writes{updates: 1}},
		{"EPS-37 as many as there is room for", base, more(50), nil, writes{updates: 1}},
		{"EPS-36 pods go to a slice that is written anyway", base, append(with(7, unready), pod("zz", "10.9.9.9")), nil,
			writes{updates: 2}},
		{"EPS-37 more than there is room for", base, more(150), nil, writes{creates: 1, updates: 1}},
		{"EPS-81 few are left: slices are merged", base, []*corev1.Pod{base[0], base[120], base[240]}, nil, writes{updates: 1, deletes: 2}},
		{"EPS-41 none are left", base, nil, nil, writes{updates: 1, deletes: 2}},
		{"EPS-46 the labels of the service", base, base, func(s *corev1.Service) { s.Labels = nil }, writes{updates: 3}},
		{"EPS-39, EPS-40 the port of the service: slices are used again", base, base,
			func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9) }, writes{updates: 3}},
		{"EPS-25 another family", base, base, func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} },
			writes{creates: 1, deletes: 3}},
		{"EPS-49 hints in slices that were unchanged", base, base, distributed("PreferSameZone"), writes{updates: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(web(), nil, c.before...)
			s.Slices = stored(s)
			s.Pods = c.after
			if c.edit != nil {
				c.edit(s.Service)
			}
			if _, got := carryOut(s, planSlices(now, s)); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// A row is a sentence: from slices of such a size, filled with so many pods, to so many of these pods and as many new ones takes these
// writes.
func TestEPS35EPS37EPS38FewWritesRatherThanFewSlices(t *testing.T) {
	for _, c := range []struct {
		name                  string
		size, before, now, to int // of before pods, those from now on stay; to is their number afterwards
		want                  writes
		slices                int
	}{
		{"51 and 50, of which one goes", 51, 101, 1, 100, writes{updates: 1}, 2},
		{"three times 50, of which one goes", 50, 150, 1, 149, writes{updates: 1}, 3},
		{"62 and 61 grow, and the last ones have room", 62, 123, 0, 250, writes{creates: 1, updates: 1}, 3},
		{"62 and 61 grow, and nothing has room for the last ones", 62, 123, 0, 263, writes{creates: 2}, 4},
		{"ten times 50, and nothing goes", 50, 500, 0, 500, writes{}, 10},
		{"ten times 50, and one more", 50, 500, 0, 501, writes{updates: 1}, 10},
		{"ten times 50, of which nine go whole, and one of the last", 50, 500, 451, 49, writes{updates: 1, deletes: 9}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(web(), nil, pods(c.before)...)
			s.Max = c.size
			s.Slices = stored(s)
			s.Max, s.Pods = 100, pods(c.now + c.to)[c.now:]
			after, got := carryOut(s, planSlices(now, s))
			if got != c.want || len(after) != c.slices {
				t.Errorf("%+v and %d slices, want %+v and %d", got, len(after), c.want, c.slices)
			}
		})
	}
}

// Of many slices, no more than 1.3 times the fewest are left when endpoints go.
func TestEPS38EPS81ManySparseSlices(t *testing.T) {
	s := snapshotOf(web(), nil, pods(500)...)
	s.Max = 50
	s.Slices = stored(s)
	s.Max, s.Pods = 100, s.Pods[1:]
	if after, n := carryOut(s, planSlices(now, s)); len(after) != 6 || n.creates > 0 || n.deletes != 4 {
		t.Errorf("%d slices, %+v", len(after), n)
	}
}

// A rolling update in batches of 25 pods of 1000 writes no more slices than those whose endpoints go, which new ones take over.
func TestRollingUpdateWritesFewSlices(t *testing.T) { // EPS-36
	s := snapshotOf(web(), nil, pods(1000)...)
	s.Slices = stored(s)
	total := 0
	for i := 0; i < 1000; i += 25 {
		for k := i; k < i+25; k++ {
			s.Pods[k] = pod(fmt.Sprintf("q%04d", k), fmt.Sprintf("10.1.%d.%d", k>>8, k&255))
		}
		after, n := carryOut(s, planSlices(now, s))
		s.Slices, total = after, total+n.creates+n.updates+n.deletes
	}
	if total > 44 || len(s.Slices) != 10 {
		t.Errorf("%d writes, %d slices; the fewest are 40 and 10", total, len(s.Slices))
	}
}

func TestServicesThatAreLeftAlone(t *testing.T) {
	external := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }
	bare := func(s *corev1.Service) { s.Spec.Selector = nil }
	for _, c := range []struct {
		name string
		edit svcEdit
		more []*discoveryv1.EndpointSlice
		want writes
	}{
		{"EPS-20 no selector: the slices stay", bare, nil, writes{}},
		{"EPS-81 so they do beside one that a user has made", bare, []*discoveryv1.EndpointSlice{theirs("manual", "me")}, writes{}},
		{"EPS-81 until there are mirrored ones", bare,
			[]*discoveryv1.EndpointSlice{theirs("mirrored", "endpointslicemirroring-controller.k8s.io")}, writes{deletes: 1}},
		{"EPS-20 an ExternalName: the slices stay", external, nil, writes{}},
		{"EPS-20 an ExternalName for which somebody else has some", external, []*discoveryv1.EndpointSlice{theirs("manual", "me")},
			writes{}},
	} {
		s := snapshotOf(web(), nil, pod("a", "10.0.0.1"))
		s.Slices = append(stored(s), c.more...)
		c.edit(s.Service)
		if _, got := carryOut(s, planSlices(now, s)); got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if p := planSlices(now, snapshot{Key: webKey}); !p.Empty() {
		t.Error("EPS-19", p)
	}
}

// Of what is left over, nothing is adopted; a service that is being deleted gets nothing new.
func TestEPS43LeftOvers(t *testing.T) {
	s := snapshotOf(web(), []*discoveryv1.EndpointSlice{theirs("old", managedBy)}, pod("a", "10.0.0.1"))
	if after, n := carryOut(s, planSlices(now, s)); n != (writes{creates: 1, deletes: 1}) || len(after) != 1 || after[0].Name == "old" {
		t.Errorf("EPS-26: %+v", n)
	}
	s.Service.DeletionTimestamp = ptr.To(ago(0))
	if _, n := carryOut(s, planSlices(now, s)); n != (writes{deletes: 1}) {
		t.Errorf("EPS-43: %+v", n)
	}
}

// Annotations of others stay, and a trigger time alone is no reason to write (EPS-47).
func TestAnnotations(t *testing.T) {
	s := snapshotOf(web(), nil, pod("a", "10.0.0.1"))
	s.Slices = stored(s)
	s.Slices[0].Annotations = map[string]string{"theirs": "x"}
	s.Trigger = ago(time.Second).Time
	if p := planSlices(now, s); !p.Empty() {
		t.Error(p.Why)
	}
	s.Pods[0] = pod("a", "10.0.0.1", unready)
	if got := stored(s)[0].Annotations; got["theirs"] != "x" ||
		got["endpoints.kubernetes.io/last-change-trigger-time"] != "2026-01-01T11:59:59Z" {
		t.Error(got)
	}
}

// A row is a sentence: with such CPU in the zones, the endpoints of n pods in zone a and m in zone b get these hints.
func TestTopologyHints(t *testing.T) {
	even := map[string]int64{"a": 2000, "b": 2000}
	const enabled, disabled = "Normal Topology Aware Hints has been enabled, addressType: IPv4", "Warning "
	for _, c := range []struct {
		name string
		cpu  map[string]int64
		a, b int
		edit podEdit
		want string // hints for a and b
		told string
	}{
		{"EPS-54 each its own", even, 3, 3, nil, "3 3", enabled},
		{"EPS-54 a zone lends", even, 6, 2, nil, "4 4", enabled},
		{"EPS-54 not for half an endpoint", even, 4, 3, nil, "4 3", enabled},
		{"EPS-52 by CPU", map[string]int64{"a": 1000, "b": 3000}, 4, 4, nil, "2 6", enabled},
		{"EPS-51 nothing is known", nil, 3, 3, nil, "0 0",
			disabled + "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4"},
		{"EPS-52 too few endpoints", even, 1, 0, nil, "0 0",
			disabled + "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"},
		{"EPS-52 the minima are too many", map[string]int64{"a": 1, "b": 1000, "c": 1000}, 2, 1, nil, "0 0",
			disabled +
				"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 3 zones), " +
				"addressType: IPv4"},
		{"EPS-55 no zone", even, 3, 3, on("n4"), "0 0", disabled + "One or more endpoints do not have a zone specified, addressType: IPv4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := pods(c.a + c.b)
			for _, p := range all[c.a:] {
				p.Spec.NodeName = "n3"
			}
			if c.edit != nil {
				c.edit(all[0])
			}
			s := snapshotOf(web(auto), nil, all...)
			s.CPU = c.cpu
			p := planSlices(now, s)
			s.Slices = stored(s)
			text := strings.Join(render(s.Slices), "")
			if got := fmt.Sprint(strings.Count(text, "@a"), " ", strings.Count(text, "@b")); got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, text)
			}
			e := p.Steps[0].(plan.RecordEvent)
			if got := e.Event.Type + " " + e.Event.Message; got != c.told {
				t.Errorf("%s, want %s", got, c.told)
			}
			if after, n := carryOut(s, planSlices(now, s)); n.updates > 0 || cmp.Diff(after, s.Slices) != "" {
				t.Errorf("EPS-53: %+v", n)
			}
		})
	}
}

// Hints go when the annotation does, and the deprecated annotation goes before the other one (EPS-48, EPS-50, EPS-55).
func TestHintsAreTakenOff(t *testing.T) {
	s := snapshotOf(web(auto), nil, pod("a", "10.0.0.1"), pod("b", "10.0.0.2", on("n3")))
	s.CPU = map[string]int64{"a": 1, "b": 1}
	s.Slices = stored(s)
	s.Hinted = true
	s.Service.Annotations[hintsAnnotation] = "Disabled"
	p := planSlices(now, s)
	if e, ok := p.Steps[0].(plan.RecordEvent); !ok || e.Event.Message != "Topology Aware Hints has been disabled, addressType: IPv4" {
		t.Errorf("%+v", p.Steps)
	}
	if got := render(stored(s)); got[0] != "IPv4 :8080/TCP> 10.0.0.1 10.0.0.2" {
		t.Error(got)
	}
}

// One of two slices has wrong hints, whichever it is: it is corrected, and the other one is left alone.
func TestEPS49EPS50WrongHintsInOneSlice(t *testing.T) {
	none := func(e *discoveryv1.Endpoint) { e.Hints = nil }
	stray := func(e *discoveryv1.Endpoint) { e.Hints = hintFor("a") }
	for _, c := range []struct {
		name  string
		edits []svcEdit
		spoil func(*discoveryv1.Endpoint)
	}{
		{"EPS-49 a hint is missing", []svcEdit{distributed("PreferClose")}, none},
		{"EPS-50 a stray hint", nil, stray},
	} {
		for wrong := range 2 {
			t.Run(fmt.Sprintf("%s in slice %d", c.name, wrong), func(t *testing.T) {
				s := snapshotOf(web(c.edits...), nil, pods(200)...)
				right := stored(s)
				slices.SortFunc(right, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
				s.Slices = slices.Clone(right)
				s.Slices[wrong] = right[wrong].DeepCopy()
				c.spoil(&s.Slices[wrong].Endpoints[7])
				after, n := carryOut(s, planSlices(now, s))
				if n != (writes{updates: 1}) {
					t.Errorf("%+v", n)
				}
				if diff := cmp.Diff(render(right), render(after)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A row is a sentence: a service that was reconciled in this form, or that was not reconciled yet, and now is in that form, is told of.
func TestEPS55HintsEnabledAndDisabled(t *testing.T) {
	const enabled, disabled = "Topology Aware Hints has been enabled, addressType: IPv4",
		"Topology Aware Hints has been disabled, addressType: IPv4"
	plain := func(*corev1.Service) {}
	foreign := theirs("foreign", "me")
	foreign.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}, Hints: hintFor("a")}}
	for _, c := range []struct {
		name        string
		before, now svcEdit
		restarted   bool
		more        *discoveryv1.EndpointSlice
		edit        podEdit
		want        string
	}{
		{name: "a plain one asks for hints", before: plain, now: auto, want: enabled},
		{name: "one asks for another kind of hints", before: distributed("PreferClose"), now: auto, want: enabled},
		{name: "hints in a slice of somebody else", before: plain, now: auto, more: foreign, want: enabled},
		{name: "all as before", before: auto, now: auto},
		{name: "all as before, after a restart", before: auto, now: auto, restarted: true},
		{name: "hints are asked for before a restart", before: plain, now: auto, restarted: true, want: enabled},
		{name: "hints are not asked for any more", before: auto, now: plain, want: disabled},
		{name: "nor are the slices as before", before: auto, now: plain, edit: unready, want: disabled},
		{name: "another kind of hints", before: auto, now: distributed("PreferClose"), want: disabled},
		{name: "a plain one stays plain", before: plain, now: plain, more: foreign},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := web(c.before)
			k := newCaches(t, service, node("n1", "a", "1"), node("n3", "b", "1"), pod("a", "10.0.0.1"), pod("b", "10.0.0.2", on("n3")))
			first, err := k.observe(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range stored(first.Snapshot) {
				k.put(t, o)
			}
			if c.more != nil {
				k.put(t, c.more)
			}
			if c.edit != nil {
				k.put(t, pod("a", "10.0.0.1", c.edit))
			}
			k.put(t, web(c.now))
			r := request()
			if !c.restarted {
				r.Memory = first.Memory
			}
			second, err := k.observe(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			for _, step := range planSlices(now, second.Snapshot).Steps {
				if e, ok := step.(plan.RecordEvent); ok {
					told += e.Event.Message
				}
			}
			if told != c.want {
				t.Errorf("%q, want %q", told, c.want)
			}
		})
	}
}

func TestCPUByZone(t *testing.T) { // EPS-51
	a, b := node("a", "a", "2"), node("b", "b", "1500m")
	down, master, bare := node("c", "c", "1"), node("d", "", "1"), node("e", "", "1")
	down.Status.Conditions[0].Status = corev1.ConditionFalse
	master.Labels["node-role.kubernetes.io/control-plane"] = ""
	for _, c := range []struct {
		name  string
		nodes []*corev1.Node
		want  map[string]int64
	}{
		{"two zones", []*corev1.Node{a, b, a}, map[string]int64{"a": 4000, "b": 1500}},
		{"one zone", []*corev1.Node{a, a}, nil},
		{"nodes that are down, and those of the control plane", []*corev1.Node{a, b, down, master}, map[string]int64{"a": 2000, "b": 1500}},
		{"a node without zone", []*corev1.Node{a, b, bare}, nil},
	} {
		if diff := cmp.Diff(c.want, cpuByZone(c.nodes), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// Of two slices, somebody has taken the hints out of one.
func TestHintsThatOneSliceLacks(t *testing.T) { // EPS-49
	for which := range 2 {
		s := snapshotOf(web(distributed("PreferSameZone")), nil, pods(4)...)
		s.Max = 2
		s.Slices = stored(s)
		s.Slices[which] = s.Slices[which].DeepCopy()
		for i := range s.Slices[which].Endpoints {
			s.Slices[which].Endpoints[i].Hints = nil
		}
		after, n := carryOut(s, planSlices(now, s))
		if n != (writes{updates: 1}) || !hasHints(after[0]) || !hasHints(after[1]) {
			t.Errorf("slice %d: %+v %v", which, n, render(after))
		}
	}
}
