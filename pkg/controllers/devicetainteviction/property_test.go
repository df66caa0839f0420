package devicetainteviction

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func drawTaint(t *rapid.T) resourcev1.DeviceTaint {
	taint := bad(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.IntRange(-400, 50).Draw(t, "added"))
	taint.Value = rapid.SampledFrom([]string{"", "v"}).Draw(t, "value")
	taint.Effect = rapid.SampledFrom([]resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute,
		resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule,
		resourcev1.DeviceTaintEffectNone}).Draw(t, "effect")
	if rapid.IntRange(0, 5).Draw(t, "nobody says when") == 0 {
		taint.TimeAdded = nil
	}
	return taint
}

func drawToleration(t *rapid.T) resourcev1.DeviceToleration {
	o := resourcev1.DeviceToleration{
		Key: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "tolerated"),
		Operator: rapid.SampledFrom([]resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpExists,
			resourcev1.DeviceTolerationOpEqual, ""}).Draw(t, "operator"),
		Value: rapid.SampledFrom([]string{"", "v"}).Draw(t, "tolerated value"),
		Effect: rapid.SampledFrom([]resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, "",
			resourcev1.DeviceTaintEffectNoSchedule}).Draw(t, "of effect"),
		TolerationSeconds: rapid.SampledFrom([]*int64{nil, ptr.To[int64](-5), ptr.To[int64](0), ptr.To[int64](60),
			ptr.To[int64](300)}).Draw(t, "seconds"),
	}
	return o
}

// drawClaim is a claim of the pod web, or not, with up to two devices.
func drawClaim(t *rapid.T, name string, web *corev1.Pod) *resourcev1.ResourceClaim {
	c := newClaim(name, by(newPod("db")))
	c.Status.Allocation.Devices.Results = nil
	for i := range rapid.IntRange(0, 2).Draw(t, name+" devices") {
		has(rapid.SampledFrom([]string{"p", "q"}).Draw(t, "of pool"), fmt.Sprint("d", i),
			rapid.SliceOfN(rapid.Custom(drawToleration), 0, 2).Draw(t, "tolerations")...)(c)
	}
	for i, edit := range []claimEdit{by(web), of(web), by(newPod("web", uid("old")))} {
		if rapid.IntRange(0, 3).Draw(t, fmt.Sprint(name, i)) > 0 {
			edit(c)
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "no devices") == 0 {
		unallocated(c)
	}
	return c
}

// draw is a world: the pod web, claims, slices and rules.
func draw(t *rapid.T) (web *corev1.Pod, claims []*resourcev1.ResourceClaim, all []*resourcev1.ResourceSlice,
	rules []*resourcev1.DeviceTaintRule) {
	web = newPod("web")
	for i, edit := range []podEdit{names("x"), made("y"), extended("z")} {
		if rapid.IntRange(0, 3).Draw(t, fmt.Sprint("claim ", i)) > 0 {
			edit(web)
		}
	}
	for i, edit := range []podEdit{leaving, finished, unbound, marked} {
		if rapid.IntRange(0, 9).Draw(t, fmt.Sprint("fate ", i)) == 0 {
			edit(web)
		}
	}
	for _, name := range []string{"x", "y", "z"} {
		claims = append(claims, drawClaim(t, name, web))
	}
	for _, in := range []string{"p", "q"} {
		for i := range rapid.IntRange(0, 2).Draw(t, "slices") {
			all = append(all, sliceOf(in, fmt.Sprint(in, i), int64(rapid.IntRange(1, 2).Draw(t, "generation")),
				rapid.SliceOfN(rapid.Custom(drawTaint), 0, 2).Draw(t, "taints")...))
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
		selector := rapid.SampledFrom([]*resourcev1.DeviceTaintSelector{nil, everything(), inPool("p"), inPool("q"),
			{Device: ptr.To("d0")}}).Draw(t, "selector")
		rules = append(rules, newRule(fmt.Sprint("r", i), selector, drawTaint(t)))
	}
	return web, claims, all, rules
}

// drawCaches caches a world.
func drawCaches(t *rapid.T) *caches {
	k := newTestCaches(t)
	web, claims, all, rules := draw(t)
	k.cache(t, web)
	for _, o := range slices.Concat(plan.Objects(claims), plan.Objects(all), plan.Objects(rules)) {
		k.cache(t, o)
	}
	return k
}

// drawSnapshot is what is observed of a world, which may have been read live, with what is remembered.
func drawSnapshot(t *rapid.T) snapshot {
	s := drawCaches(t).look(t, memory{LastEvent: rapid.SampledFrom([]string{"", pending, evicting}).Draw(t, "told")})
	s.Many, s.Memory.Held, s.Since = map[string]string{}, map[types.UID]time.Time{}, map[types.UID]time.Time{}
	for _, r := range s.Rules {
		if rapid.IntRange(0, 2).Draw(t, "many") == 0 {
			s.Many[r.Name] = "it concerns 6 of 7"
		}
		for _, held := range []map[types.UID]time.Time{s.Memory.Held, s.Since} {
			if rapid.IntRange(0, 2).Draw(t, "held") == 0 {
				held[r.UID] = at(-rapid.IntRange(0, 400).Draw(t, "since"))
			}
		}
	}
	s.Gone, s.Early = rapid.IntRange(0, 9).Draw(t, "gone") == 0, rapid.Bool().Draw(t, "early")
	return s
}

// deadline says in the words of the contract when the pod web is to go by what the caches show, whatever is held; zero for never.
func deadline(k *caches, web *corev1.Pod) (first time.Time) {
	recorded := map[string]bool{} // the claims that the pod uses, and whether they must be its own
	for _, e := range web.Spec.ResourceClaims {
		if e.ResourceClaimName != nil {
			recorded[*e.ResourceClaimName] = false
		}
	}
	for _, e := range web.Status.ResourceClaimStatuses {
		recorded[*e.ResourceClaimName] = true
	}
	if e := web.Status.ExtendedResourceClaimStatus; e != nil {
		recorded[e.ResourceClaimName] = false
	}
	for c := range k.claims.All() {
		own, named := recorded[c.Name]
		reserved := slices.ContainsFunc(c.Status.ReservedFor,
			func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == web.UID })
		if !named || !reserved || own && len(c.OwnerReferences) == 0 || c.Status.Allocation == nil {
			continue
		}
		for _, d := range c.Status.Allocation.Devices.Results {
			for _, t := range taintsOf(k, d) {
				if at := goes(d, t); !at.IsZero() && (first.IsZero() || at.Before(first)) {
					first = at
				}
			}
		}
	}
	return first
}

// taintsOf returns the NoExecute taints of a device.
func taintsOf(k *caches, d device) (taints []resourcev1.DeviceTaint) {
	newest := int64(0)
	for s := range k.slices.All() {
		if s.Spec.Pool.Name == d.Pool {
			newest = max(newest, s.Spec.Pool.Generation)
		}
	}
	for s := range k.slices.All() {
		for _, one := range s.Spec.Devices {
			if s.Spec.Pool.Name == d.Pool && s.Spec.Pool.Generation == newest && one.Name == d.Device {
				taints = append(taints, one.Taints...)
			}
		}
	}
	for r := range k.rules.All() {
		by := r.Spec.DeviceSelector
		if by != nil && (by.Pool == nil || *by.Pool == d.Pool) && (by.Device == nil || *by.Device == d.Device) {
			taints = append(taints, r.Spec.Taint)
		}
	}
	return slices.DeleteFunc(taints, func(t resourcev1.DeviceTaint) bool { return t.Effect != resourcev1.DeviceTaintEffectNoExecute })
}

// goes is when a pod with a device is to go for a taint; zero for never.
func goes(d device, t resourcev1.DeviceTaint) time.Time {
	shortest, tolerated := int64(0), false
	for _, o := range d.Tolerations {
		key, value := o.Key == "" || o.Key == t.Key, o.Operator == resourcev1.DeviceTolerationOpExists || o.Value == t.Value
		if !key || !value || o.Effect == resourcev1.DeviceTaintEffectNoSchedule {
			continue
		}
		if o.TolerationSeconds == nil {
			return time.Time{}
		}
		if seconds := max(0, *o.TolerationSeconds); !tolerated || seconds < shortest {
			shortest, tolerated = seconds, true
		}
	}
	added := at(-5000) // when slices and rules were created
	if t.TimeAdded != nil {
		added = t.TimeAdded.Time
	}
	return added.Add(time.Duration(shortest) * time.Second)
}

// DTE-2, DTE-3, DTE-4, MEND-32: a pod goes when its time is over by what the caches show, and not before; one that tolerates stays. What
// one says who looks at it when it is asked to, is when it goes.
func TestEvictsAtTheEarliestDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawCaches(t)
		s := k.look(t, memory{})
		want := deadline(k, s.Pod)
		if exempt(s.Pod) != "" {
			want = time.Time{}
		}
		d, p := planEviction(epoch, s)
		switch {
		case want.IsZero():
			if deletes(p) || p.Requeue > 0 || !d.Due.IsZero() {
				t.Errorf("%+v: %s, again in %s", d, p.Why, p.Requeue)
			}
		case want.After(epoch):
			if deletes(p) || p.Requeue != want.Sub(epoch) || d.LastEvent != pending {
				t.Errorf("%+v: %s, again in %s, due in %s", d, p.Why, p.Requeue, want.Sub(epoch))
			}
			if _, p = planEviction(want, s); !deletes(p) {
				t.Errorf("it is due: %s", p.Why)
			}
		case !deletes(p) || p.Requeue != 0 || d.LastEvent != evicting:
			t.Errorf("%+v: %s, again in %s", d, p.Why, p.Requeue)
		}
	})
}

// DTE-5: a pod goes only if it is asked for live, and so is what taints its devices: all that taints them then, if it is not held.
func TestEverythingIsProved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		d, p := planEviction(epoch, s)
		if deletes(p) != (len(p.Proof) > 1) || deletes(p) && p.Proof[0] != podRef(s.Pod) {
			t.Fatalf("%v: %s", said(p), p.Why)
		}
		if !deletes(p) {
			return
		}
		now := plan.Object(s.Pod)
		read := map[plan.Ref]reconcile.Reading{p.Proof[0]: {Objects: []plan.Object{now}}}
		for _, ref := range p.Proof[1:] {
			read[ref] = reconcile.Reading{} // it is gone
		}
		o := prove(observation{Exists: true, Snapshot: s}, reconcile.Proof{Now: epoch, Read: read})
		again, q := planEviction(epoch, o.Snapshot)
		if deletes(q) && slices.Contains(q.Proof, p.Proof[1]) {
			t.Errorf("it goes for %v, which is gone: %+v", p.Proof[1], again)
		}
		read[p.Proof[0]] = reconcile.Reading{Objects: []plan.Object{newPod("web", uid("other"))}}
		o = prove(observation{Exists: true, Snapshot: s}, reconcile.Proof{Now: epoch, Read: read})
		if _, q := planEviction(epoch, o.Snapshot); !q.Empty() {
			t.Errorf("another pod of the name goes: %+v", d)
		}
	})
}

// What a rule holds is held until its time is over, and no longer; nothing else is.
func TestHoldsEnd(t *testing.T) { // DTE-22
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		d, p := planEviction(epoch, s)
		if p.Hold.What == "" {
			return
		}
		if deletes(p) || len(s.Many) == 0 || p.Requeue <= 0 || p.Requeue > lookAtHeld {
			t.Fatalf("%+v: %v", p.Hold, said(p))
		}
		s.Memory = *remember(epoch, s, d, plan.Outcome{})
		last := slices.MaxFunc(slices.Collect(maps.Values(d.Held)), time.Time.Compare)
		if _, p = planEviction(last.Add(longestHold), s); !deletes(p) {
			t.Errorf("it is held for ever: %s", p.Why)
		}
		s.Many = nil
		if _, p = planEviction(epoch, s); !deletes(p) || p.Hold.What != "" {
			t.Errorf("it is held for nothing: %s", p.Why)
		}
	})
}

// The order in which caches have objects says nothing.
func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		d, p := planEviction(epoch, s)
		s.Claims = rapid.Permutation(s.Claims).Draw(t, "claims")
		s.Slices = rapid.Permutation(s.Slices).Draw(t, "slices")
		s.Rules = rapid.Permutation(s.Rules).Draw(t, "rules")
		again, q := planEviction(epoch, s)
		plantest.Same(t, p, q)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := plantest.Restored(t, s)
		planEviction(epoch, s)
		if diff := cmp.Diff(before, plantest.Restored(t, s)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		d, p := planEviction(epoch, s)
		again, q := planEviction(epoch, plantest.Restored(t, s))
		plantest.Same(t, p, q)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
		r := ruleSnapshot{Rule: newRule("r", everything(), drawTaint(t)), Pending: count{rapid.IntRange(0, 2).Draw(t, "pods"), 1, 2},
			Evicted: rapid.IntRange(0, 2).Draw(t, "evicted")}
		plantest.Same(t, reportRule(epoch, r, plan.Outcome{}), reportRule(epoch, plantest.Restored(t, r), plan.Outcome{}))
	})
}

// A status that was written leaves nothing to write.
func TestStatusIsWrittenOnce(t *testing.T) { // DTE-7
	rapid.Check(t, func(t *rapid.T) {
		r := ruleSnapshot{Rule: newRule("r", everything(), drawTaint(t)),
			Pending: count{rapid.IntRange(0, 2).Draw(t, "pods"), 1, 2}, Evicted: rapid.IntRange(0, 2).Draw(t, "evicted")}
		c := r.wanted()
		c.LastTransitionTime = *timeAt(-60)
		r.Rule.Status.Conditions = append(r.Rule.Status.Conditions, c)
		if p := reportRule(epoch, r, plan.Outcome{}); !p.Empty() {
			t.Errorf("%+v: %s", c, p.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		web, claims, all, rules := draw(t)
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		whole, cached := newTestCaches(t), newTestCaches(t)
		fill(&web.Spec.Containers)
		fill(&web.Status.PodIPs)
		whole.cache(t, web)
		cached.cache(t, kept.ProjectPod(web))
		for _, c := range claims {
			fill(&c.Spec)
			fill(&c.Status.Devices)
		}
		for _, s := range all {
			fill(&s.Spec.SharedCounters)
			fill(&s.Spec.NodeSelector)
		}
		for _, o := range slices.Concat(plan.Objects(claims), plan.Objects(all), plan.Objects(rules)) {
			whole.cache(t, o)
			thin, err := kept.Project(o)
			if err != nil {
				t.Fatal(err)
			}
			cached.cache(t, thin.(plan.Object))
		}
		d, p := planEviction(epoch, whole.look(t, memory{}))
		again, q := planEviction(epoch, cached.look(t, memory{}))
		if diff := cmp.Diff(d, again); diff != "" || p.Why != q.Why || p.Requeue != q.Requeue || !slices.Equal(p.Proof, q.Proof) {
			t.Errorf("%s: %s, and from the cache %s", diff, p.Why, q.Why)
		}
		if diff := cmp.Diff(whole.count(epoch), cached.count(epoch)); diff != "" {
			t.Error(diff)
		}
		for _, c := range claims {
			thin, _ := kept.Project(c)
			if !slices.Equal(whole.enqueuedByClaim(nil, c), cached.enqueuedByClaim(nil, thin.(plan.Object))) {
				t.Errorf("%s enqueues other keys", c.Name)
			}
		}
	})
}

// What was evicted is counted for each rule, and never less.
func TestEvictionsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known, want := term{}, map[types.UID]int{}
		for range rapid.IntRange(0, 10).Draw(t, "evictions") {
			rules := rapid.SliceOfNDistinct(rapid.SampledFrom([]types.UID{"a", "b", "c"}), 0, 3, func(u types.UID) types.UID { return u }).Draw(t, "rules")
			before := known
			known = known.evicted(rules)
			for _, uid := range rules {
				if want[uid]++; before.Evicted[uid] != want[uid]-1 {
					t.Error("a value that was known has changed")
				}
			}
		}
		for uid, n := range want {
			if known.Evicted[uid] != n {
				t.Errorf("%s: %d, want %d", uid, known.Evicted[uid], n)
			}
		}
	})
}
