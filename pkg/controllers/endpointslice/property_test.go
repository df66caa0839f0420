package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

func drawService(t *rapid.T) *corev1.Service {
	s := web(rapid.SampledFrom([]svcEdit{named, func(*corev1.Service) {}, func(s *corev1.Service) { s.Spec.Ports = nil }}).Draw(t, "ports"))
	s.Spec.ClusterIP = rapid.SampledFrom([]string{"10.96.0.1", "None", "fd00::1", ""}).Draw(t, "clusterIP")
	s.Spec.IPFamilies = rapid.SampledFrom([][]corev1.IPFamily{nil, {corev1.IPv4Protocol},
		{corev1.IPv6Protocol, corev1.IPv4Protocol}}).Draw(t, "families")
	s.Spec.PublishNotReadyAddresses = rapid.IntRange(0, 4).Draw(t, "publishes") == 0
	s.Labels = rapid.SampledFrom([]map[string]string{nil, {"x": "y"},
		{corev1.IsHeadlessService: "z", discoveryv1.LabelManagedBy: "z"}}).Draw(t, "labels")
	rapid.SampledFrom([]svcEdit{func(*corev1.Service) {}, auto, distributed("PreferSameZone"), distributed("PreferSameNode"),
		distributed("x")}).Draw(t, "hints")(s)
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
	"relabelled": func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x"} },
	"dual":       func(p *corev1.Pod) { ips(p.Status.PodIP, "FD00::0"+p.Name[1:])(p) },
	"no ip":      func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil },
	"replaced":   func(p *corev1.Pod) { p.UID = "new-" + p.UID },
	"named":      exposing(8080), "other": exposing(9090), "moved": on("n3"), "lost": on("gone"), "unbound": on(""), "nowhere": on("n4"),
	"hostname": func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = p.Name, "web" },
}

func drawPods(t *rapid.T, most int) []*corev1.Pod {
	return rapid.SliceOfNDistinct(rapid.Custom(drawPod), 0, most, func(p *corev1.Pod) string { return p.Name }).Draw(t, "pods")
}

// drawSnapshot is any service with any pods; its slices are absent, right, or those of other pods, other sizes or other forms of the
// service.
func drawSnapshot(t *rapid.T) snapshot {
	s := snapshotOf(drawService(t), nil)
	s.Max = rapid.IntRange(1, 6).Draw(t, "max")
	s.Hinted = rapid.Bool().Draw(t, "hinted")
	s.CPU = rapid.SampledFrom([]map[string]int64{nil, {"a": 1000, "b": 1000}, {"a": 3000, "b": 1000, "c": 1}}).Draw(t, "cpu")
	for range rapid.IntRange(0, 3).Draw(t, "reconciles before") {
		was := s
		was.Pods, was.Max = drawPods(t, 16), rapid.IntRange(1, 6).Draw(t, "max before")
		if rapid.IntRange(0, 3).Draw(t, "service was another") == 0 {
			was.Service = drawService(t)
		}
		s.Slices = stored(was)
	}
	s.Slices = drawWrongHints(t, s.Slices)
	if rapid.IntRange(0, 3).Draw(t, "others") == 0 {
		orphan, dying := theirs("orphan", managedBy), theirs("dying", managedBy)
		dying.DeletionTimestamp = ptr.To(ago(time.Second))
		s.Slices = append(s.Slices, theirs("manual", "me"), orphan, dying)
	}
	s.Pods = drawPods(t, 20)
	return s
}

// drawWrongHints returns the slices, of which some have lost hints or got others.
func drawWrongHints(t *rapid.T, right []*discoveryv1.EndpointSlice) (all []*discoveryv1.EndpointSlice) {
	for _, o := range right {
		if len(o.Endpoints) > 0 && rapid.IntRange(0, 3).Draw(t, "wrong hints") == 0 {
			o = o.DeepCopy()
			e := &o.Endpoints[rapid.IntRange(0, len(o.Endpoints)-1).Draw(t, "endpoint")]
			e.Hints = rapid.SampledFrom([]*discoveryv1.EndpointHints{nil, {}, hintFor("a"), hintFor("elsewhere")}).Draw(t, "hints")
		}
		all = append(all, o)
	}
	return all
}

// wanted are the endpoints that the service must have in a family, by pod, with the ports of each.
func wanted(s snapshot, family discoveryv1.AddressType) map[string][]discoveryv1.EndpointPort {
	all := map[string][]discoveryv1.EndpointPort{}
	m := membersOf(s)
	for i := range m.all {
		if e, ok := m.endpoint(&m.all[i], family); ok {
			all[e.TargetRef.Name] = m.ports[m.all[i].ports]
		}
	}
	return all
}

func ourSlices(all []*discoveryv1.EndpointSlice, family discoveryv1.AddressType) (of []*discoveryv1.EndpointSlice) {
	for _, o := range all {
		if ours(o) && o.AddressType == family && o.DeletionTimestamp == nil {
			of = append(of, o)
		}
	}
	return of
}

// portsKey tells lists of ports apart.
func portsKey(o *discoveryv1.EndpointSlice) string {
	return fmt.Sprint(render([]*discoveryv1.EndpointSlice{{Ports: o.Ports}}))
}

// held is what the slices with one list of ports held before, and whether endpoints have left one of them.
type held struct {
	slices, endpoints int
	shrunk            bool
}

// earlier returns what the service's slices of a family held, by ports.
func earlier(s snapshot, family discoveryv1.AddressType, want map[string][]discoveryv1.EndpointPort) map[string]held {
	had := map[string]held{}
	for _, o := range ourSlices(s.Slices, family) {
		if !metav1.IsControlledBy(o, s.Service) {
			continue
		}
		h := had[portsKey(o)]
		h.slices++
		h.endpoints += len(o.Endpoints)
		h.shrunk = h.shrunk || len(o.Endpoints) > s.Max || slices.ContainsFunc(o.Endpoints, func(e discoveryv1.Endpoint) bool {
			ports, ok := want[e.TargetRef.Name]
			return !ok || !endpoints.SamePorts(ports, o.Ports)
		})
		had[portsKey(o)] = h
	}
	return had
}

// Each endpoint is in exactly one slice, with its ports; no slice is too large, and there are not too many: few when endpoints have gone,
// otherwise no more than before, unless there are few, and the new endpoints need them.
func TestEveryEndpointIsInOneSlice(t *testing.T) { // EPS-25..28, EPS-33, EPS-38, EPS-41
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		after := stored(s)
		for _, family := range []discoveryv1.AddressType{"IPv4", "IPv6", "FQDN"} {
			mine := ourSlices(after, family)
			if !slices.Contains(familiesOf(s.Service), family) {
				if len(mine) > 0 {
					t.Fatalf("slices of the family %s: %v", family, render(mine))
				}
				continue
			}
			want := wanted(s, family)
			had := earlier(s, family, want)
			perPorts, slicesOf := map[string]int{}, map[string]int{}
			for _, o := range mine {
				slicesOf[portsKey(o)]++
				if len(o.Endpoints) > s.Max || len(o.Endpoints) == 0 && len(mine) > 1 {
					t.Fatalf("%d endpoints in one of %d slices", len(o.Endpoints), len(mine))
				}
				for i := range o.Endpoints {
					e := &o.Endpoints[i]
					ports, ok := want[e.TargetRef.Name]
					if !ok || !endpoints.SamePorts(ports, o.Ports) {
						t.Fatalf("%s is there twice, or ought not to be: %v", e.TargetRef.Name, render(after))
					}
					delete(want, e.TargetRef.Name)
					perPorts[portsKey(o)]++
				}
			}
			if len(want) > 0 || len(mine) == 0 {
				t.Fatalf("missing: %v", want)
			}
			for ports, n := range perPorts {
				fewest, before := (n+s.Max-1)/s.Max, had[ports]
				most := max(fewest+1, fewest*13/10)
				if !before.shrunk {
					most = max(before.slices, min(most, before.slices+(n-before.endpoints+s.Max-1)/s.Max))
				}
				if slicesOf[ports] > most {
					t.Fatalf("%d slices for %d endpoints, the fewest are %d; before: %+v", slicesOf[ports], n, fewest, before)
				}
			}
		}
	})
}

// What endpoints say is true of their pods.
func TestConditionsAreThoseOfPods(t *testing.T) { // EPS-29, EPS-30
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		byName := map[string]*corev1.Pod{}
		for _, p := range s.Pods {
			byName[p.Name] = p
		}
		for _, o := range stored(s) {
			for i := range o.Endpoints {
				e := &o.Endpoints[i]
				p := byName[e.TargetRef.Name]
				serving, going := podutil.Ready(p), p.DeletionTimestamp != nil
				up := s.Service.Spec.PublishNotReadyAddresses || serving && !going
				if !is(e.Conditions.Ready, up) || !is(e.Conditions.Serving, serving) || !is(e.Conditions.Terminating, going) {
					t.Fatalf("%s: %+v", p.Name, e.Conditions)
				}
				if e.TargetRef.UID != p.UID || !says(e.NodeName, p.Spec.NodeName) || !says(e.Zone, s.Zones[p.Spec.NodeName]) {
					t.Fatalf("%s: %+v", p.Name, e)
				}
			}
		}
	})
}

func TestRepeatedPlanIsEmpty(t *testing.T) { // EPS-35, EPS-47
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		s.Slices = stored(s)
		s.Trigger = ago(0).Time
		if _, n := carryOut(s, planSlices(now, s)); n.creates+n.updates+n.deletes > 0 {
			t.Fatalf("%+v: %s", n, planSlices(now, s).Why)
		}
	})
}

// Wrong hints are corrected where they are, whichever slices have them, and no more is written.
func TestWrongHintsAreCorrected(t *testing.T) { // EPS-49, EPS-50, EPS-53
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		right := stored(s)
		s.Slices = drawWrongHints(t, right)
		spoilt := 0
		for i := range right {
			if s.Slices[i] != right[i] {
				spoilt++
			}
		}
		after, n := carryOut(s, planSlices(now, s))
		if n.creates+n.deletes > 0 || n.updates > spoilt {
			t.Fatalf("%+v for %d slices", n, spoilt)
		}
		s.Slices = after
		if _, n := carryOut(s, planSlices(now, s)); n.updates > 0 {
			t.Fatalf("%+v when all was done", n)
		}
	})
}

// A pod that changes, or one more, rewrites one slice in each family (EPS-35..37).
func TestOneChangeRewritesOneSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		s.Service.Annotations, s.Service.Spec.Ports, s.Service.Spec.TrafficDistribution = nil, web().Spec.Ports, nil
		if len(s.Pods) == 0 {
			return
		}
		s.Slices = stored(s)
		s.Pods = slices.Clone(s.Pods)
		if rapid.Bool().Draw(t, "one more") {
			s.Pods = append(s.Pods, pod("zz", "10.9.9.9"))
		} else {
			i := rapid.IntRange(0, len(s.Pods)-1).Draw(t, "changed")
			s.Pods[i] = s.Pods[i].DeepCopy()
			if podutil.Ready(s.Pods[i]) {
				unready(s.Pods[i])
			} else {
				s.Pods[i].Status.Conditions[0].Status = corev1.ConditionTrue
			}
		}
		if _, n := carryOut(s, planSlices(now, s)); n.creates+n.updates > len(familiesOf(s.Service)) || n.deletes > 0 {
			t.Fatalf("%+v", n)
		}
	})
}

// Slices of others, and those that are being deleted already, are left alone (EPS-21).
func TestTouchesOnlyItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		after := stored(s)
		for _, o := range s.Slices {
			if (!ours(o) || o.DeletionTimestamp != nil) && !slices.Contains(after, o) {
				t.Fatalf("%s was touched", o.Name)
			}
		}
	})
}

// The order in which caches list objects makes no difference.
func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		shuffled := s
		shuffled.Pods = rapid.Permutation(s.Pods).Draw(t, "pods")
		shuffled.Slices = rapid.Permutation(s.Slices).Draw(t, "slices")
		if diff := cmp.Diff(planSlices(now, s), planSlices(now, shuffled)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		if diff := cmp.Diff(planSlices(now, s), planSlices(now, plantest.Restored(t, s)), cmpopts.EquateEmpty()); diff != "" {
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
		service, err := projected.Project(s.Service.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		slim.Service = service.(*corev1.Service)
		if diff := cmp.Diff(planSlices(now, s), planSlices(now, slim)); diff != "" {
			t.Fatal(diff)
		}
		n := node("n1", "a", "2")
		whole := cpuByZone([]*corev1.Node{n, node("n2", "b", "1")})
		n.Spec.PodCIDR, n.Status.NodeInfo.KernelVersion = "10.0.0.0/24", "6"
		part, err := projected.Project(n)
		if err != nil || !maps.Equal(whole, cpuByZone([]*corev1.Node{part.(*corev1.Node), node("n2", "b", "1")})) {
			t.Fatal(err, part)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := snapshot{Service: s.Service.DeepCopy()}
		for _, p := range s.Pods {
			before.Pods = append(before.Pods, p.DeepCopy())
		}
		for _, o := range s.Slices {
			before.Slices = append(before.Slices, o.DeepCopy())
		}
		first := planSlices(now, s)
		if !equality.Semantic.DeepEqual(before.Service, s.Service) || !equality.Semantic.DeepEqual(before.Pods, s.Pods) ||
			!equality.Semantic.DeepEqual(before.Slices, s.Slices) {
			t.Fatal("the input was changed")
		}
		if diff := cmp.Diff(first, planSlices(now, s)); diff != "" {
			t.Fatal(diff)
		}
	})
}
