package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated; this controller serves those who still write them

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var (
	now    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	webKey = plan.Key{Namespace: "shop", Name: "web"}
)

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "service"}}
}

// subset is one with the ports, and with the addresses: "!" stands before those that are not ready.
func subset(ports string, addresses ...string) (s corev1.EndpointSubset) {
	for i, name := range strings.Fields(ports) {
		s.Ports = append(s.Ports, corev1.EndpointPort{Name: name, Port: int32(80 + i), Protocol: corev1.ProtocolTCP})
	}
	for _, a := range addresses {
		if ip, unready := strings.CutPrefix(a, "!"); unready {
			s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: ip})
		} else {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a})
		}
	}
	return s
}

func byHand(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "endpoints", Labels: map[string]string{"team": "a"},
			Annotations: map[string]string{"note": "x", endpoints.TriggerTime: "y", lastApplied: "z"}},
		Subsets: subsets,
	}
}

func snapshotOf(e *corev1.Endpoints, stored ...*discoveryv1.EndpointSlice) snapshot {
	return snapshot{Key: webKey, Endpoints: e, Service: service(), Slices: stored, Max: 1000}
}

type writes struct{ creates, updates, deletes, events int }

// carryOut returns the slices as the plan leaves them.
func carryOut(s snapshot) (after []*discoveryv1.EndpointSlice, n writes) {
	after = slices.Clone(s.Slices)
	var do func([]plan.Step)
	do = func(steps []plan.Step) {
		for _, step := range steps {
			switch step := step.(type) {
			case plan.Create:
				o := step.Object.DeepCopyObject().(*discoveryv1.EndpointSlice)
				n.creates++
				o.Name = fmt.Sprintf("%s%d-%d", o.GenerateName, len(s.Slices), n.creates)
				for slices.ContainsFunc(after, func(other *discoveryv1.EndpointSlice) bool { return other.Name == o.Name }) {
					o.Name += "x"
				}
				o.UID = types.UID(o.Name)
				after = append(after, o)
			case plan.Change:
				after[slices.Index(after, step.Old.(*discoveryv1.EndpointSlice))] = step.New.DeepCopyObject().(*discoveryv1.EndpointSlice)
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
	do(planMirror(now, s).Steps)
	return after, n
}

func render(all []*discoveryv1.EndpointSlice) (lines []string) {
	for _, s := range all {
		var words []string
		for _, p := range s.Ports {
			words = append(words, fmt.Sprintf("%s:%d", *p.Name, *p.Port))
		}
		words = append(words, ">")
		for _, e := range s.Endpoints {
			text := e.Addresses[0]
			if !*e.Conditions.Ready {
				text = "!" + text
			}
			words = append(words, text)
		}
		lines = append(lines, fmt.Sprintf("%s %s", s.AddressType, strings.Join(words, " ")))
	}
	slices.Sort(lines)
	return lines
}

// A row is a sentence: for such Endpoints, the slices say this.
func TestMirror(t *testing.T) {
	for _, c := range []struct {
		name    string
		subsets []corev1.EndpointSubset
		want    []string
	}{
		{"ESM-18 nothing", nil, nil},
		{"ESM-14 ready and not", []corev1.EndpointSubset{subset("http", "10.0.0.1", "!10.0.0.2")},
			[]string{"IPv4 http:80 > 10.0.0.1 !10.0.0.2"}},
		{"ESM-13 both families", []corev1.EndpointSubset{subset("http", "10.0.0.1", "fd00::1")},
			[]string{"IPv4 http:80 > 10.0.0.1", "IPv6 http:80 > fd00::1"}},
		{"ESM-12 subsets with the same ports", []corev1.EndpointSubset{subset("http", "10.0.0.1"), subset("http", "10.0.0.2")},
			[]string{"IPv4 http:80 > 10.0.0.1 10.0.0.2"}},
		{"ESM-12 subsets with other ports", []corev1.EndpointSubset{subset("http", "10.0.0.1"), subset("x y", "10.0.0.2")},
			[]string{"IPv4 http:80 > 10.0.0.1", "IPv4 x:80 y:81 > 10.0.0.2"}},
		{"ESM-15 what is no address", []corev1.EndpointSubset{subset("http", "10.0.0.1", "web")}, []string{"IPv4 http:80 > 10.0.0.1"}},
		{"no ports", []corev1.EndpointSubset{subset("", "10.0.0.1")}, []string{"IPv4 > 10.0.0.1"}},
	} {
		after, _ := carryOut(snapshotOf(byHand(c.subsets...)))
		if diff := cmp.Diff(c.want, render(after)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A new slice has all that others look for (EPS-6, ESM-14, ESM-20..22).
func TestEPS6NewSlice(t *testing.T) {
	e := byHand(subset("http", "10.0.0.1"))
	e.Subsets[0].Addresses[0] = corev1.EndpointAddress{IP: "10.0.0.1", Hostname: "a", NodeName: ptr.To("n1"),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "a"}}
	after, _ := carryOut(snapshotOf(e))
	got := after[0]
	if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].Kind != "Endpoints" || got.OwnerReferences[0].UID != "endpoints" ||
		!*got.OwnerReferences[0].Controller {
		t.Errorf("ESM-22: %+v", got.OwnerReferences)
	}
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-", Name: got.Name, UID: got.UID,
			OwnerReferences: got.OwnerReferences,
			Labels: map[string]string{"team": "a", "kubernetes.io/service-name": "web",
				"endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"},
			Annotations: map[string]string{"note": "x"}},
		AddressType: "IPv4",
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			Hostname: ptr.To("a"), NodeName: ptr.To("n1"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "a"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The targetRef is mirrored whole, but another resourceVersion in it is no reason to write (EPS-34).
func TestESM14TargetRefAsItIs(t *testing.T) {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "a", UID: "a", ResourceVersion: "7",
		FieldPath: "x"}
	s := snapshotOf(byHand(subset("http", "10.0.0.1", "10.0.0.2")))
	s.Endpoints.Subsets[0].Addresses[0].TargetRef = &ref
	s.Slices, _ = carryOut(s)
	if diff := cmp.Diff(&ref, s.Slices[0].Endpoints[0].TargetRef); diff != "" {
		t.Error(diff)
	}
	newer := ref
	newer.ResourceVersion = "8"
	s.Endpoints.Subsets[0].Addresses[0].TargetRef = &newer
	if _, n := carryOut(s); n != (writes{}) {
		t.Errorf("%+v", n)
	}
	s.Endpoints.Subsets[0].NotReadyAddresses, s.Endpoints.Subsets[0].Addresses = s.Endpoints.Subsets[0].Addresses[1:],
		s.Endpoints.Subsets[0].Addresses[:1]
	after, n := carryOut(s)
	if diff := cmp.Diff(&newer, after[0].Endpoints[0].TargetRef); diff != "" || n != (writes{updates: 1}) {
		t.Error(n, diff)
	}
}

// A row is a sentence: Endpoints that are mirrored and then change in this way take these writes.
func TestWrites(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*snapshot)
		want writes
	}{
		{"nothing has changed", func(*snapshot) {}, writes{}},
		{"ESM-4 the skip label", func(s *snapshot) { s.Endpoints.Labels[discoveryv1.LabelSkipMirror] = "true" }, writes{deletes: 2}},
		{"ESM-4 another value of it", func(s *snapshot) { s.Endpoints.Labels[discoveryv1.LabelSkipMirror] = "false" }, writes{updates: 2}},
		{"ESM-4 a record of leader election", func(s *snapshot) { s.Endpoints.Annotations[leaderRecord] = "{}" }, writes{deletes: 2}},
		{"ESM-9 no Endpoints", func(s *snapshot) { s.Endpoints = nil }, writes{deletes: 2}},
		{"ESM-9 no service", func(s *snapshot) { s.Service = nil }, writes{deletes: 2}},
		{"ESM-9 a service with a selector", func(s *snapshot) { s.Service.Spec.Selector = map[string]string{} }, writes{deletes: 2}},
		{"ESM-10 an ExternalName", func(s *snapshot) { s.Service.Spec.Type = corev1.ServiceTypeExternalName }, writes{}},
		{"ESM-18 one address more", func(s *snapshot) {
			s.Endpoints.Subsets[0] = subset("http", "10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1")
		}, writes{updates: 1}},
		{"ESM-18 no address", func(s *snapshot) { s.Endpoints.Subsets = nil }, writes{deletes: 2}},
		{"ESM-18 a second slice for the same", func(s *snapshot) {
			twin := s.Slices[0].DeepCopy()
			twin.Name, twin.UID = "zz", "zz"
			s.Slices = append(s.Slices, twin)
		}, writes{deletes: 1}},
		{"ESM-18 other Endpoints of that name", func(s *snapshot) { s.Endpoints.UID = "new" }, writes{updates: 2}},
		{"ESM-19 other ports: slices are used again", func(s *snapshot) { s.Endpoints.Subsets[0].Ports[0].Name = "web" },
			writes{updates: 2}},
		{"ESM-19 Endpoints that are being deleted", func(s *snapshot) {
			s.Endpoints.DeletionTimestamp = &metav1.Time{}
			s.Endpoints.Subsets = append(s.Endpoints.Subsets, subset("x y", "10.0.0.9"))
		}, writes{}},
		{"ESM-20 labels", func(s *snapshot) { s.Endpoints.Labels = nil }, writes{updates: 2}},
		{"ESM-21 annotations", func(s *snapshot) { s.Endpoints.Annotations["note"] = "z" }, writes{updates: 2}},
		{"ESM-21 annotations of others", func(s *snapshot) {
			s.Slices[0] = s.Slices[0].DeepCopy()
			s.Slices[0].Annotations["theirs"] = "x"
		}, writes{updates: 1}},
		{"ESM-11 slices that are being deleted", func(s *snapshot) {
			s.Slices[0] = s.Slices[0].DeepCopy()
			s.Slices[0].DeletionTimestamp = &metav1.Time{}
		}, writes{creates: 1}},
		{"ESM-15 what is no address", func(s *snapshot) { s.Endpoints.Subsets[0] = subset("http", "10.0.0.1", "web") },
			writes{updates: 1, deletes: 1, events: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(byHand(subset("http", "10.0.0.1", "10.0.0.2", "fd00::1")))
			s.Slices, _ = carryOut(s)
			c.edit(&s)
			after, got := carryOut(s)
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			s.Slices = after
			if _, again := carryOut(s); s.Endpoints != nil && s.Endpoints.DeletionTimestamp == nil && again != (writes{}) {
				t.Errorf("there is still something to do: %+v", again)
			}
		})
	}
}

// At most so many addresses of a subset are mirrored, those that are ready first (ESM-13, ESM-16).
func TestTooMany(t *testing.T) {
	s := snapshotOf(byHand(subset("http", "10.0.0.1", "10.0.0.2", "fd00::1", "web", "!10.0.0.0")))
	s.Max = 2
	after, _ := carryOut(s)
	if diff := cmp.Diff([]string{"IPv4 http:80 > 10.0.0.1 10.0.0.2"}, render(after)); diff != "" {
		t.Error(diff)
	}
	var told []string
	for _, step := range planMirror(now, s).Steps {
		if e, ok := step.(plan.RecordEvent); ok && e.Object == plan.Object(s.Endpoints) {
			told = append(told, e.Event.Type+" "+e.Event.Reason+": "+e.Event.Message)
		}
	}
	if diff := cmp.Diff([]string{
		"Warning InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
		"Warning TooManyAddressesToMirror: A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were " +
			"skipped",
	}, told); diff != "" {
		t.Error(diff)
	}
}

// The warnings come with each change of the Endpoints, also when what is mirrored stays the same, and not again without one.
func TestESM15ESM16WarningsWithoutWrites(t *testing.T) {
	f := informers.NewFactory(fake.NewClientset(), 0)
	stored, err1 := informers.Objects[*corev1.Endpoints](f)
	services, err2 := informers.Services(f)
	mirrors, err3 := informers.EndpointSlices(f)
	if err := errors.Join(err1, err2, err3, services.Informer().GetIndexer().Add(service())); err != nil {
		t.Fatal(err)
	}
	k := &caches{endpoints: stored, services: services, slices: mirrors, most: 2}
	var remembered *memory
	for i, c := range []struct {
		name      string
		addresses []string
		version   string
		want      writes
	}{
		{"at first", []string{"10.0.0.1", "10.0.0.2"}, "1", writes{creates: 1}},
		{"one more than can be mirrored", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "2", writes{events: 1}},
		{"no change", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "2", writes{}},
		{"what is no address, too", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "web"}, "3", writes{events: 2}},
		{"all is well again", []string{"10.0.0.1", "10.0.0.2"}, "4", writes{}},
	} {
		e := byHand(subset("http", c.addresses...))
		e.ResourceVersion = c.version
		if err := stored.Informer().GetStore().Add(e); err != nil {
			t.Fatal(err)
		}
		o, err := k.observe(t.Context(), reconcile.Request[memory]{Key: webKey, Now: now, Memory: remembered})
		if err != nil || !o.Exists {
			t.Fatal(err, o)
		}
		after, got := carryOut(o.Snapshot)
		if got != c.want {
			t.Errorf("%d %s: %+v, want %+v", i, c.name, got, c.want)
		}
		for _, s := range after {
			if err := mirrors.Informer().GetStore().Add(s); err != nil {
				t.Fatal(err)
			}
		}
		remembered = o.Memory
	}
	o, err := k.observe(t.Context(), reconcile.Request[memory]{Key: webKey, Now: now})
	if err != nil || !o.Snapshot.Changed {
		t.Errorf("after a start nothing is told: %v, %+v", err, o)
	}
}

func drawEndpoints(t *rapid.T) *corev1.Endpoints {
	address := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "!10.0.0.4", "!10.0.0.1", "fd00::1", "!fd00::2", "010.0.0.7",
		"x", ""})
	one := rapid.Custom(func(t *rapid.T) corev1.EndpointSubset {
		return subset(rapid.SampledFrom([]string{"", "http", "http x", "x"}).Draw(t, "ports"),
			rapid.SliceOfN(address, 0, 6).Draw(t, "addresses")...)
	})
	e := byHand(rapid.SliceOfN(one, 0, 3).Draw(t, "subsets")...)
	if rapid.IntRange(0, 5).Draw(t, "skipped") == 0 {
		e.Labels[discoveryv1.LabelSkipMirror] = "true"
	}
	return e
}

func drawSnapshot(t *rapid.T) snapshot {
	s := snapshotOf(drawEndpoints(t))
	s.Max = rapid.IntRange(1, 6).Draw(t, "max")
	for range rapid.IntRange(0, 2).Draw(t, "reconciles before") {
		s.Slices, _ = carryOut(s)
		s.Endpoints = drawEndpoints(t)
	}
	if rapid.Bool().Draw(t, "others") {
		s.Slices = append(s.Slices,
			&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "theirs", UID: "theirs",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "me"}}})
	}
	return s
}

// Once the plan is carried out, there is nothing left to do, each address is at its ports once, and slices of others are untouched.
func TestRepeatedPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := s.Slices
		s.Slices, _ = carryOut(s)
		if _, n := carryOut(s); n != (writes{}) {
			t.Fatalf("%+v", n)
		}
		seen := map[string]bool{}
		for _, o := range s.Slices {
			if o.Labels[discoveryv1.LabelManagedBy] != managedBy {
				if !slices.Contains(before, o) {
					t.Fatal("a slice of somebody else was touched")
				}
				continue
			}
			key := strings.SplitAfter(render([]*discoveryv1.EndpointSlice{o})[0], ">")[0]
			if seen[key] || len(o.Endpoints) == 0 || len(o.Endpoints) > s.Max {
				t.Fatalf("%s: there are two, or it has %d endpoints", key, len(o.Endpoints))
			}
			seen[key] = true
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := plantest.Restored(t, s)
		_, _ = carryOut(s)
		if diff := cmp.Diff(before, s, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		if diff := cmp.Diff(planMirror(now, s), planMirror(now, plantest.Restored(t, s)), cmpopts.EquateEmpty()); diff != "" {
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
		e, err1 := projected.Project(s.Endpoints.DeepCopy())
		o, err2 := projected.Project(s.Service.DeepCopy())
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		slim.Endpoints, slim.Service = e.(*corev1.Endpoints), o.(*corev1.Service)
		a, b := planMirror(now, s), planMirror(now, slim)
		if diff := cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(plan.RecordEvent{}, "Object")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Whatever the objects are, to plan for them does not panic, and once the plan is carried out there is nothing left to do.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		e, o := &corev1.Endpoints{}, &discoveryv1.EndpointSlice{}
		fill(e)
		fill(o)
		o.Namespace, o.Name, o.UID = "shop", "old", "old"
		if rapid.Bool().Draw(t, "ours") {
			o.Labels, o.DeletionTimestamp = map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: managedBy},
				nil
		}
		s := snapshotOf(e, o)
		s.Slices, _ = carryOut(s)
		if _, n := carryOut(s); e.DeletionTimestamp == nil && n != (writes{}) {
			t.Errorf("there is still something to do: %+v", n)
		}
	})
}

// FuzzAddresses: whatever stands where an address should, it is mirrored canonically or skipped, and the plan converges.
func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "010.0.0.1", "fd00::1", "x", "", "10.0.0.1/24", "fe80::1%eth0"} {
		f.Add(seed, "10.0.0.1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		s := snapshotOf(byHand(subset("http", a, "!"+b)))
		s.Slices, _ = carryOut(s)
		if _, n := carryOut(s); n != (writes{}) {
			t.Fatalf("%+v", n)
		}
		for _, o := range s.Slices {
			for _, e := range o.Endpoints {
				if ip, family := endpoints.Parse(e.Addresses[0]); ip != e.Addresses[0] || string(family) != string(o.AddressType) {
					t.Fatalf("%v in a slice of %s", e.Addresses, o.AddressType)
				}
			}
		}
	})
}

func TestEPS3Identity(t *testing.T) { // EPS-1..3, ESM-1..3
	c := New(Options{})
	if c.Name != "endpointslice-mirroring-controller" || c.Alias != "endpointslicemirroring" ||
		c.Account != "endpointslicemirroring-controller" {
		t.Errorf("%+v", c)
	}
	o := c.Flags.(*Options)
	if *o != (Options{Workers: 5, Max: 1000}) || len(o.Validate()) > 0 {
		t.Errorf("%+v", o)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse([]string{"--mirroring-concurrent-service-endpoint-syncs=51", "--mirroring-max-endpoints-per-subset=0",
		"--mirroring-endpointslice-updates-batch-period=-1s"}); err != nil || len(o.Validate()) != 3 {
		t.Errorf("%v: %v", err, o.Validate())
	}
}

// A row is a sentence: a service that was like this and is like that enqueues its key.
func TestEnqueuedByService(t *testing.T) { // ESM-6
	bare, selecting := service(), service()
	selecting.Spec.Selector = map[string]string{"app": "web"}
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          bool
	}{
		{"a new one without selector", nil, bare, true},
		{"a new one with selector", nil, selecting, false},
		{"one without selector has gone", bare, nil, true},
		{"one with selector has gone", selecting, nil, false},
		{"the selector is taken off", selecting, bare, true},
		{"it gets a selector", bare, selecting, true},
		{"something else", bare, bare, false},
	} {
		if got := len(enqueuedByService(c.before, c.after)) == 1; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// What is written and what there is shows in the metrics, as long as the Endpoints exist (ESM-24).
func TestMetrics(t *testing.T) {
	exists := true
	c := newCollectors(func(plan.Key) bool { return exists })
	registry := metrics.NewKubeRegistry()
	for _, m := range c.all() {
		registry.MustRegister(m)
	}
	s := snapshotOf(byHand(subset("http", "10.0.0.1", "10.0.0.2", "x")))
	s.Slices, _ = carryOut(s)
	s.Endpoints = byHand(subset("http", "!10.0.0.1", "10.0.0.3", "x"))
	change := planMirror(now, s).Steps[1].(plan.Each).Sequences[0][0].(plan.Change)
	did := plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Object: change.New}}}
	c.applied(t.Context(), s, struct{}{}, did, plan.Outcome{})
	values := func() map[string]float64 {
		all := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := strings.TrimPrefix(f.GetName(), "endpoint_slice_mirroring_controller_")
				all[name] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
		delete(all, "endpoints_sync_duration")
		return all
	}
	if diff := cmp.Diff(map[string]float64{
		"endpoints_added_per_sync": 1, "endpoints_updated_per_sync": 1, "endpoints_removed_per_sync": 1, "addresses_skipped_per_sync": 1,
		"endpoints_desired": 2, "num_endpoint_slices": 1, "desired_endpoint_slices": 1, "changes": 1,
	}, values()); diff != "" {
		t.Error(diff)
	}
	exists = false
	c.applied(t.Context(), s, struct{}{}, did, plan.Outcome{})
	if got := values(); got["endpoints_desired"] != 0 || got["num_endpoint_slices"] != 0 {
		t.Error(got)
	}
}
