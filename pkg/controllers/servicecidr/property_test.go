package servicecidr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// world is ServiceCIDRs and addresses in them. The first one is that of the key.
type world struct {
	ranges    []*networkingv1.ServiceCIDR
	addresses []*networkingv1.IPAddress
}

var someRanges = []string{"10.0.0.0/16", "10.0.0.0/16", "10.0.0.0/20", "10.0.1.0/24", "10.0.0.0/8", "10.1.0.0/16", "fd00::/112",
	"fd00::/64"}

func draw(t *rapid.T) (w world) {
	for i := range rapid.IntRange(1, 4).Draw(t, "ServiceCIDRs") {
		c := newCIDR(rapid.SliceOfN(rapid.SampledFrom(someRanges), 1, 2).Draw(t, "ranges"))
		if i > 0 {
			c = other(fmt.Sprint(i), c.Spec.CIDRs...)
			c.Finalizers = nil
		}
		for j, edit := range []edit{protected, doomed, ready, terminating} {
			if rapid.Bool().Draw(t, fmt.Sprint("edit ", j)) {
				edit(c)
			}
		}
		w.ranges = append(w.ranges, c)
	}
	ips := []string{"10.0.0.0", "10.0.0.1", "10.0.1.0", "10.0.1.7", "10.0.15.255", "10.0.255.255", "10.1.2.3", "10.9.9.9", "fd00::1",
		"fd00::1:0:1"}
	for _, ip := range rapid.SliceOfNDistinct(rapid.SampledFrom(ips), 0, 4, rapid.ID[string]).Draw(t, "addresses") {
		a := newAddress(ip)
		if rapid.IntRange(0, 4).Draw(t, "foreign") == 0 {
			a = foreign(ip)
		}
		w.addresses = append(w.addresses, a)
	}
	return w
}

func (w world) objects() (all []plan.Object) {
	return append(plan.Objects(w.ranges), plan.Objects(w.addresses)...)
}

// working calls a function while the term of the controller has begun.
func working(k *caches, f func()) {
	k.allocated.Run(context.Background(), func(plan.Key) {}, f)
}

// look returns what is observed of the first ServiceCIDR in the caches, and then proved by what there is.
func look(t interface{ Fatal(...any) }, cached, live world) (seen observation) {
	k := cachesWith(t, cached.objects()...)
	working(k, func() {
		var err error
		if seen, err = k.observe(context.Background(), reconcile.Request[struct{}]{Key: plan.Key{Name: "extra"}}); err != nil {
			t.Fatal(err)
		}
	})
	return prove(seen, read(live))
}

// read is what live lists show.
func read(live world) reconcile.Proof {
	var metadata []plan.Object
	for _, a := range live.addresses {
		metadata = append(metadata, &metav1.PartialObjectMetadata{ObjectMeta: a.ObjectMeta})
	}
	return reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{
		allRanges(): {Objects: plan.Objects(live.ranges)}, allAddresses(): {Objects: metadata},
	}}
}

// orphans returns the addresses of Services that are in the first ServiceCIDR and in none that stays.
func (w world) orphans() (ips []string) {
	in := func(c *networkingv1.ServiceCIDR, ip string) bool {
		return slices.ContainsFunc(c.Spec.CIDRs, func(r string) bool {
			a, p := netip.MustParseAddr(ip), netip.MustParsePrefix(r)
			return p.Contains(a) && a != p.Addr() && !(a.Is4() && !p.Contains(a.Next()))
		})
	}
	for _, a := range w.addresses {
		if a.Labels["ipaddress.kubernetes.io/managed-by"] == "ipallocator.k8s.io" && in(w.ranges[0], a.Name) &&
			!slices.ContainsFunc(w.ranges[1:], func(c *networkingv1.ServiceCIDR) bool {
				return c.DeletionTimestamp == nil && slices.Contains(c.Finalizers, finalizer) && in(c, a.Name)
			}) {
			ips = append(ips, a.Name)
		}
	}
	return ips
}

// Whatever the caches show, no ServiceCIDR loses the finalizer while an address is in it that none of those that stay holds. With right
// caches it loses it exactly when there is none.
func TestNoRangeGoesThatIsUsed(t *testing.T) { // SCC-1, SCC-5, SCC-20
	rapid.Check(t, func(t *rapid.T) {
		live := draw(t)
		cached := live
		if rapid.Bool().Draw(t, "lag") {
			cached = draw(t)
			cached.ranges[0] = live.ranges[0]
		}
		p := planFinalizer(epoch, look(t, cached, live).Snapshot)
		own, orphans := live.ranges[0], live.orphans()
		has, goes := slices.Contains(own.Finalizers, finalizer), own.DeletionTimestamp != nil
		switch {
		case !goes && has == !p.Empty(), goes && !has && !p.Empty():
			t.Errorf("%s: has the finalizer: %t", p.Why, has)
		case goes && !p.Empty() && len(orphans) > 0:
			t.Errorf("%s: there are %v", p.Why, orphans)
		case goes && has && p.Empty() && len(orphans)+len(cached.orphans()) == 0:
			t.Errorf("%s: there are no addresses", p.Why)
		}
		if written(t, p); !p.Empty() && protection.Due(p.Steps[0].(plan.Change).New) {
			t.Errorf("%s: it is not done", p.Why)
		}
	})
}

// Whatever makes a ServiceCIDR free enqueues it, so that none waits for ever.
func TestWhatFreesARangeEnqueuesIt(t *testing.T) { // SCC-2
	rapid.Check(t, func(t *rapid.T) {
		before := draw(t)
		protected(before.ranges[0])
		doomed(before.ranges[0])
		after := world{slices.Clone(before.ranges), slices.Clone(before.addresses)}
		var was, is plan.Object
		addressChanges := len(before.addresses) > 0 && rapid.Bool().Draw(t, "address")
		if addressChanges {
			was = before.addresses[0]
			if after.addresses = after.addresses[1:]; rapid.Bool().Draw(t, "becomes foreign") {
				is = foreign(was.GetName())
				after.addresses = append(after.addresses, is.(*networkingv1.IPAddress))
			}
		} else {
			is = other("new", rapid.SampledFrom(someRanges).Draw(t, "range"))
			after.ranges = append(after.ranges, is.(*networkingv1.ServiceCIDR))
		}
		k := cachesWith(t, after.objects()...)
		keys := k.enqueuedByRange
		if addressChanges {
			keys = k.enqueuedByAddress
		}
		if len(before.orphans()) > 0 && len(after.orphans()) == 0 && !slices.Contains(keys(was, is), plan.Key{Name: "extra"}) {
			t.Errorf("from %v to none, and it is not looked at", before.orphans())
		}
	})
}

// The term follows each change: it always has what the cache would begin with.
func TestTermFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := draw(t).addresses, draw(t).addresses
		begun := cachesWith(t, plan.Objects(before)...).begin()
		names := map[string][2]plan.Object{}
		for _, a := range before {
			names[a.Name] = [2]plan.Object{a, nil}
		}
		for _, a := range after {
			names[a.Name] = [2]plan.Object{names[a.Name][0], a}
		}
		for _, change := range names {
			begun = next(begun, change[0], change[1])
		}
		all := netip.MustParsePrefix("0.0.0.0/0")
		n, first := begun.outside(all, nil)
		m, same := cachesWith(t, plan.Objects(after)...).begin().outside(all, nil)
		if n != m || first != same {
			t.Errorf("%d from %s, want %d from %s", n, first, m, same)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		s := look(t, w, w).Snapshot
		again := plantest.Restored(t, s)
		plantest.Same(t, planFinalizer(epoch, s), planFinalizer(epoch, again))
		plantest.Same(t, reportReady(epoch, s, plan.Outcome{}), reportReady(epoch, again, plan.Outcome{}))
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		for _, a := range w.addresses {
			fill(&a.Spec)
		}
		var projected world
		for _, o := range w.objects() {
			o.SetAnnotations(map[string]string{"a": "b"})
			p, err := kept.Project(o.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			if isAddress(o) {
				projected.addresses = append(projected.addresses, p.(*networkingv1.IPAddress))
			} else {
				projected.ranges = append(projected.ranges, p.(*networkingv1.ServiceCIDR))
			}
		}
		a, b := look(t, w, w).Snapshot, look(t, projected, w).Snapshot
		p, q := reportReady(epoch, a, plan.Outcome{}), reportReady(epoch, b, plan.Outcome{})
		for _, steps := range [][]plan.Step{p.Steps, q.Steps} {
			for i, step := range steps {
				c := step.(plan.Change)
				c.Old = nil // which has annotations
				steps[i] = c
			}
		}
		if diff := cmp.Diff(planFinalizer(epoch, a).Why, planFinalizer(epoch, b).Why) + cmp.Diff(p, q); diff != "" {
			t.Error(diff)
		}
	})
}

// Whatever the objects are, nothing panics, and nothing that was observed is changed.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		w := draw(t)
		for _, o := range w.objects()[1:] {
			fill(o)
		}
		fill(w.ranges[0])
		w.ranges[0].Namespace, w.ranges[0].Name = "", "extra"
		if rapid.Bool().Draw(t, "protected") {
			protected(w.ranges[0])
		}
		before := w.ranges[0].DeepCopy()
		k := cachesWith(t, w.objects()...)
		for _, o := range w.objects() {
			for _, c := range [][2]plan.Object{{nil, o}, {o, nil}, {o, o}} {
				k.enqueuedByRange(c[0], c[1])
				if isAddress(o) {
					k.enqueuedByAddress(c[0], c[1])
				}
			}
		}
		s := look(t, w, w).Snapshot
		now := epoch.Add(100 * 365 * 24 * time.Hour)
		planFinalizer(now, s)
		reportReady(now, s, plan.Outcome{})
		if diff := cmp.Diff(before, w.ranges[0]); diff != "" {
			t.Errorf("what was observed was changed: %s", diff)
		}
	})
}
