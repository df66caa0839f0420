package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

func drawService(t *rapid.T) *corev1.Service {
	s := web(ports(rapid.SampledFrom([][]string{{}, {">8080"}, {"a>1", "b>2"}, {"a>web", "b>2"}, {"a>web", "b>side", "c>web/UDP"}}).Draw(t,
		"ports")...))
	s.Spec.ClusterIP = rapid.SampledFrom([]string{"10.96.0.1", "None", "fd00::1", ""}).Draw(t, "clusterIP")
	s.Spec.IPFamilies = rapid.SampledFrom([][]corev1.IPFamily{nil, {corev1.IPv4Protocol},
		{corev1.IPv6Protocol, corev1.IPv4Protocol}}).Draw(t, "families")
	s.Spec.PublishNotReadyAddresses = rapid.IntRange(0, 4).Draw(t, "publishes") == 0
	s.Labels = rapid.SampledFrom([]map[string]string{nil, {"x": "y"}, {corev1.IsHeadlessService: "z", managedByLabel: "z"}}).Draw(t,
		"labels")
	return s
}

func drawPod(t *rapid.T) *corev1.Pod {
	ip := fmt.Sprint("10.0.0.", rapid.IntRange(1, 30).Draw(t, "ip"))
	p := pod(rapid.StringMatching("p[0-9]{2}").Draw(t, "name"), ip)
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		if rapid.IntRange(0, 5).Draw(t, name) == 0 {
			edits[name](p)
		}
	}
	return p
}

var edits = map[string]podEdit{
	"unready": unready, "terminating": terminating, "failed": phase(corev1.PodFailed), "done": phase(corev1.PodSucceeded),
	"relabelled": labeled("app=x"), "dual": func(p *corev1.Pod) { ips(p.Status.PodIP, "FD00::0"+p.Name[1:])(p) },
	"no ip": func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }, "abroad": func(p *corev1.Pod) { p.Namespace = "bank" },
	"named":    exposing("web", 8080, corev1.ProtocolTCP),
	"sidecar":  sidecar("side", 9090, ptr.To(corev1.ContainerRestartPolicyAlways)),
	"init":     sidecar("side", 7070, nil),
	"hostname": func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = p.Name, "web" },
	"unbound":  func(p *corev1.Pod) { p.Spec.NodeName = "" },
}

func drawPods(t *rapid.T) []*corev1.Pod {
	return rapid.SliceOfNDistinct(rapid.Custom(drawPod), 0, 12, func(p *corev1.Pod) types.UID { return p.UID }).Draw(t, "pods")
}

// drawSnapshot is any service with any pods; its Endpoints are absent, right, or those of other pods.
func drawSnapshot(t *rapid.T) snapshot {
	s := snapshotOf(drawService(t), nil, drawPods(t)...)
	switch rapid.IntRange(0, 2).Draw(t, "stored") {
	case 1:
		s.Endpoints = stored(s)
	case 2:
		s.Endpoints = stored(snapshotOf(s.Service, nil, drawPods(t)...))
	}
	return s
}

func TestEveryReadyAddressIsASelectedReadyPod(t *testing.T) { // EP-10..16
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		byUID := map[types.UID]*corev1.Pod{}
		for _, p := range s.Pods {
			byUID[p.UID] = p
		}
		check := func(a corev1.EndpointAddress, ready bool) {
			p := byUID[a.TargetRef.UID]
			ours := p != nil && p.Namespace == "shop" && p.Labels["app"] == "web" && !podutil.Finished(p) && a.TargetRef.Name == p.Name
			if !ours || !slices.ContainsFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool { return equalIP(ip.IP, a.IP) }) {
				t.Fatalf("%s is no address of %v", a.IP, p)
			}
			if s.Service.Spec.PublishNotReadyAddresses {
				if !ready {
					t.Fatalf("%s is published as not ready", a.IP)
				}
			} else if p.DeletionTimestamp != nil || podutil.Ready(p) != ready {
				t.Fatalf("%s: deleted at %v, ready %t, in the wrong list", a.IP, p.DeletionTimestamp, podutil.Ready(p))
			}
		}
		for _, subset := range stored(s).Subsets {
			for _, a := range subset.Addresses {
				check(a, true)
			}
			for _, a := range subset.NotReadyAddresses {
				check(a, false)
			}
		}
	})
}

func equalIP(text, ip string) bool {
	canonical, _ := endpoints.Parse(text)
	return canonical == ip
}

// No pod that belongs in is missing, at any port that it serves.
func TestNoAddressIsMissing(t *testing.T) { // EP-17, EP-19, EP-20
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		type at struct {
			endpoints.ID
			endpoints.Port
		}
		has := map[at]int{}
		for _, e := range endpoints.Unpack(stored(s).Subsets) {
			for _, p := range e.Ports {
				has[at{endpoints.IDOf(e), p}]++
			}
		}
		want := map[at]int{}
		for _, p := range s.Pods {
			if ip := addressIn(familyOf(s.Service, p), p); ip != "" && p.Namespace == "shop" &&
				endpoints.Selects(s.Service.Spec.Selector, p.Labels) && counts(s.Service, p) {
				for _, port := range portsFor(s.Service, p) {
					want[at{endpoints.ID{IP: ip, UID: p.UID}, port}] = 1
				}
			}
		}
		if !reflect.DeepEqual(has, want) {
			t.Fatalf("has %v, want %v", has, want)
		}
	})
}

func TestCanonicalOrderIsStable(t *testing.T) { // EP-22..24
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		shuffled := s
		shuffled.Pods = rapid.Permutation(s.Pods).Draw(t, "shuffled")
		if diff := cmp.Diff(planned(s), planned(shuffled)); diff != "" {
			t.Fatal(diff)
		}
		// However stored subsets are divided and ordered, they say the same.
		e := stored(s)
		if e == nil {
			return
		}
		e.Subsets = scatter(t, e.Subsets)
		s.Endpoints = e
		if p := planned(s); !p.Empty() {
			t.Fatalf("%s: %v", p.Why, render(e.Subsets))
		}
	})
}

// scatter divides subsets at random into others that say the same.
func scatter(t *rapid.T, subsets []corev1.EndpointSubset) (out []corev1.EndpointSubset) {
	for _, s := range subsets {
		ports := [][]corev1.EndpointPort{s.Ports}
		if len(s.Ports) > 1 && rapid.Bool().Draw(t, "divides ports") {
			ports = [][]corev1.EndpointPort{s.Ports[1:], s.Ports[:1]}
		}
		for _, p := range ports {
			out = append(out, corev1.EndpointSubset{Ports: p, NotReadyAddresses: s.NotReadyAddresses})
			for _, a := range rapid.Permutation(s.Addresses).Draw(t, "addresses") {
				out = append(out, corev1.EndpointSubset{Ports: p, Addresses: []corev1.EndpointAddress{a}})
			}
		}
	}
	return rapid.Permutation(out).Draw(t, "subsets")
}

func TestRepeatedPlanIsEmpty(t *testing.T) { // EP-27
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		s.Trigger = ago(0).Time
		s.Endpoints = stored(s)
		if p := planned(s); !p.Empty() {
			t.Fatalf("%s: %v", p.Why, p.Steps)
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		if diff := cmp.Diff(planned(s), planned(plantest.Restored(t, s)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// With what the caches keep if there is no other controller, it decides the same.
func TestIgnoresFieldsNotCached(t *testing.T) {
	projected, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		slim := s
		slim.Pods = nil
		for _, p := range s.Pods {
			fat := p.DeepCopy()
			fat.Annotations = map[string]string{"note": "x"}
			fat.Spec.Containers[0].Command, fat.Spec.ServiceAccountName = []string{"run"}, "default"
			fat.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
			slim.Pods = append(slim.Pods, projected.ProjectPod(fat))
		}
		service, err := projected.Project(s.Service)
		if err != nil {
			t.Fatal(err)
		}
		slim.Service = service.(*corev1.Service)
		if diff := cmp.Diff(planned(s), planned(slim)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(endpoints.TimesOf(s.Service, s.Pods), endpoints.TimesOf(s.Service, slim.Pods)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := snapshotOf(s.Service.DeepCopy(), s.Endpoints.DeepCopy())
		for _, p := range s.Pods {
			before.Pods = append(before.Pods, p.DeepCopy())
		}
		result := stored(s) // a copy of what is written
		_ = planned(s)
		if diff := cmp.Diff(before, s, cmp.AllowUnexported(snapshot{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if again := stored(s); !reflect.DeepEqual(result, again) {
			t.Fatal(cmp.Diff(result, again))
		}
	})
}

// Pods come, go and change their minds: what is in and still has a claim stays, ready ones come first, and nothing is
// ever written twice.
func TestTruncationIsStable(t *testing.T) { // EP-32..34
	rapid.Check(t, func(t *rapid.T) {
		s := snapshotOf(drawService(t), nil)
		room := rapid.IntRange(1, 8).Draw(t, "room")
		for range 4 {
			s.Pods = drawPods(t)
			w := want(s, findAddresses(s), room)
			after := &corev1.Endpoints{Subsets: w.subsets}
			checkTruncation(t, s, after, room)
			s.Endpoints = after
			if again := want(s, findAddresses(s), room); !endpoints.SameSubsets(again.subsets, w.subsets) {
				t.Fatalf("%v became %v", render(w.subsets), render(again.subsets))
			}
		}
	})
}

func checkTruncation(t *rapid.T, s snapshot, after *corev1.Endpoints, room int) {
	held, in := map[endpoints.ID]bool{}, map[endpoints.ID]bool{} // in: whether ready
	if s.Endpoints != nil {
		for _, e := range endpoints.Unpack(s.Endpoints.Subsets) {
			held[endpoints.IDOf(e)] = true
		}
	}
	var unreadyIn, newIn bool
	for _, e := range endpoints.Unpack(after.Subsets) {
		in[endpoints.IDOf(e)] = e.Ready
		unreadyIn = unreadyIn || !e.Ready
		newIn = newIn || e.Ready && !held[endpoints.IDOf(e)]
	}
	if n := endpoints.Size(after.Subsets); n > room {
		t.Fatalf("%d addresses in a room for %d", n, room)
	}
	for _, e := range endpoints.Unpack(want(s, findAddresses(s), 1000).subsets) {
		// One that takes more room than another may have to wait for it.
		if _, is := in[endpoints.IDOf(e)]; is || !e.Ready || len(s.Service.Spec.Ports) > 1 {
			continue
		}
		if unreadyIn || held[endpoints.IDOf(e)] && newIn {
			t.Fatalf("%s is left out: %v", e.Address.IP, render(after.Subsets))
		}
	}
}

// FuzzAnnotations: whatever annotations Endpoints have, those that are not ours stay, and a second reconcile has nothing to do.
func FuzzAnnotations(f *testing.F) {
	for _, key := range []string{"x", triggerTime, overCapacity, leaderRecord, ""} {
		f.Add(key, "truncated", "y", "")
	}
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		s := snapshotOf(web(), stored(snapshotOf(web(), nil)), pod("a", "10.0.0.1"))
		s.Endpoints.Annotations = map[string]string{key1: value1, key2: value2}
		before := s.Endpoints.DeepCopy()
		after := stored(s)
		for key, value := range before.Annotations {
			if got, ok := after.Annotations[key]; key != triggerTime && key != overCapacity && (!ok || got != value) {
				t.Fatalf("%q: %q became %q", key, value, got)
			}
		}
		s.Endpoints = after
		if p := planned(s); !p.Empty() || after.Annotations[overCapacity] != "" {
			t.Fatal(p.Why, after.Annotations)
		}
		s.Service = nil
		if _, leader := after.Annotations[leaderRecord]; leader != planned(s).Empty() {
			t.Fatalf("leader's record: %t", leader)
		}
	})
}

// FuzzSelector: whatever the selector and the labels, the index and the planner agree on whether a service selects a pod.
func FuzzSelector(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"app":"web"}`, `{"app":"web"}`}, {`{}`, `{}`}, {`null`, `{"a":"b"}`}, {`{"a":""}`, `{}`},
		{`{"a":"b","c":"d"}`, `{"c":"d","a":"b","e":""}`},
		{`{"":""}`, `{"":""}`}, {`{"a=b":"c"}`, `{"a":"b=c"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, selector, labels string) {
		service, p := web(), pod("a", "10.0.0.1")
		service.Spec.Selector, p.Labels = nil, nil
		if json.Unmarshal([]byte(selector), &service.Spec.Selector) != nil || json.Unmarshal([]byte(labels), &p.Labels) != nil {
			return
		}
		matches := service.Spec.Selector != nil
		for key, value := range service.Spec.Selector {
			has, ok := p.Labels[key]
			matches = matches && ok && has == value
		}
		k := newCaches(t, service, p)
		if got := k.enqueuedByPod(nil, p); (len(got) == 1) != matches {
			t.Fatalf("%s and %s: enqueued %v", selector, labels, got)
		}
		o, err := k.observe(t.Context(), request())
		s := o.Snapshot
		if !o.Exists || err != nil || (len(s.Pods) == 1) != matches {
			t.Fatalf("%s and %s: observed %v %v %v", selector, labels, s.Pods, o.Exists, err)
		}
		if service.Spec.Selector == nil {
			return
		}
		if e := stored(s); (len(e.Subsets) == 1) != matches {
			t.Fatalf("%s and %s: %v", selector, labels, render(e.Subsets))
		}
	})
}
