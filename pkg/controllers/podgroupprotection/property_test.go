package podgroupprotection

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// world is a PodGroup in a CompositePodGroup, with what may keep them: in the caches, on the server, or on both.
type world struct {
	stores
	group  *podGroup
	fleet  *compositePodGroup
	cached []plan.Object
	live   []plan.Object
}

func draw(t *rapid.T) *world {
	w := &world{group: newGroup("gang"), fleet: newComposite("fleet")}
	for _, o := range []plan.Object{w.group, w.fleet} {
		own := map[bool]string{true: finalizer, false: compositeFinalizer}[o == plan.Object(w.group)]
		o.SetFinalizers(rapid.SampledFrom([][]string{nil, {own}, {own, "x"}, {"x"}}).Draw(t, "finalizers"))
		if rapid.Bool().Draw(t, "goes") {
			leaving(o)
		}
	}
	w.stores = cachesWith(t, w.group, w.fleet)
	others := []edit{elsewhere, leaving, under("fleet"), under("other"), func(plan.Object) {}}
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		phase := rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed})
		w.add(t, newPod(fmt.Sprint("rank-", i), rapid.SampledFrom([]string{"gang", "gang", "other", ""}).Draw(t, "group"),
			in(phase.Draw(t, "phase")), rapid.SampledFrom(others).Draw(t, "edit")))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
		w.add(t, newGroup(fmt.Sprint("gang-", i), rapid.SampledFrom(others).Draw(t, "edit")))
		w.add(t, newComposite(fmt.Sprint("fleet-", i), rapid.SampledFrom(others).Draw(t, "edit")))
	}
	return w
}

// add puts an object into a cache, on the server, or both.
func (w *world) add(t *rapid.T, o plan.Object) {
	knows := rapid.SampledFrom([]string{"both", "cache", "server"}).Draw(t, "knows")
	if knows != "server" {
		w.cache(t, o)
		w.cached = append(w.cached, o)
	}
	if knows != "cache" {
		w.live = append(w.live, o)
	}
}

// keeps reports whether an object keeps the group: it is in it, and a pod of it may run.
func keeps(o, group plan.Object) bool {
	if o.GetNamespace() != group.GetNamespace() {
		return false
	}
	_, composite := group.(*compositePodGroup)
	switch o := o.(type) {
	case *pod:
		s := o.Spec.SchedulingGroup
		return !composite && s != nil && *s.PodGroupName == group.GetName() && o.Status.Phase != corev1.PodSucceeded &&
			o.Status.Phase != corev1.PodFailed
	case *podGroup:
		return composite && ptr.Deref(o.Spec.ParentCompositePodGroupName, "") == group.GetName()
	case *compositePodGroup:
		return composite && ptr.Deref(o.Spec.ParentCompositePodGroupName, "") == group.GetName()
	}
	return false
}

func kept(group plan.Object, by []plan.Object) bool {
	return slices.ContainsFunc(by, func(o plan.Object) bool { return keeps(o, group) })
}

// lists answers what a plan asks for as a server does: of a kind that client-go does not know, objects are unstructured.
func (w *world) lists(t interface{ Fatal(...any) }, refs []plan.Ref) reconcile.Proof {
	proof := reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{}}
	for _, ref := range refs {
		var r reconcile.Reading
		for _, o := range w.live {
			if o.GetNamespace() != ref.Namespace {
				continue
			}
			p, isPod := o.(*pod)
			c, isComposite := o.(*compositePodGroup)
			switch _, isGroup := o.(*podGroup); {
			case isPod && ref.Kind == pods().kind && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed,
				isGroup && ref.Kind == podGroups().kind:
				r.Objects = append(r.Objects, o)
			case isComposite && ref.Kind == compositeKind():
				text, err := json.Marshal(c)
				u := &unstructured.Unstructured{}
				if err == nil {
					err = u.UnmarshalJSON(text)
				}
				if err != nil {
					t.Fatal(err)
				}
				r.Objects = append(r.Objects, u)
			}
		}
		proof.Read[ref] = r
	}
	return proof
}

// observed is what is observed of a group some time after its deletion was first seen.
func observed[G group](t interface{ Fatal(...any) }, k *caches[G], name string, after time.Duration) observation[G] {
	o, err := k.observe(context.Background(), reconcile.Request[memory]{Key: plan.Key{Namespace: "shop", Name: name},
		Now: epoch.Add(after), Memory: &memory{Since: epoch}})
	if err != nil || !o.Exists {
		t.Fatal(err)
	}
	return o
}

// decide plans as the engine does, with live lists if the plan asks for them.
func decide[G group](t *rapid.T, w *world, k *caches[G], name string, planned func(time.Time, snapshot[G]) plan.Plan) plan.Plan {
	o := observed(t, k, name, time.Minute)
	p := planned(epoch, o.Snapshot)
	if len(p.Proof) == 0 {
		return p
	}
	proof := w.lists(t, p.Proof)
	p = planned(epoch, k.prove(o, proof).Snapshot)
	if missing, err := proof.Lacks(p); err != nil || len(missing) > 0 {
		t.Fatalf("the plan asks for more: %v, %v", missing, err)
	}
	return p
}

// judge says what is wrong with a plan for a group.
func (w *world) judge(t *rapid.T, g plan.Object, p plan.Plan, protection plan.Protection) {
	has, goes := slices.Contains(g.GetFinalizers(), string(protection)), g.GetDeletionTimestamp() != nil
	free := !kept(g, w.cached) && !kept(g, w.live)
	if want := goes && has && free; p.Empty() == want {
		t.Fatalf("%s %s: %s; nobody keeps it: %t", g.GetName(), g.GetFinalizers(), p.Why, free)
	}
	if p.Empty() {
		return
	}
	after := g.DeepCopyObject().(plan.Object)
	if after.SetFinalizers(written(t, p)); protection.Due(after) {
		t.Errorf("%s: it is not done", p.Why)
	}
}

// A group loses the finalizer exactly when it is being deleted and neither the caches nor the server show anybody who keeps it, and what
// was written leaves nothing to do.
func TestNoGroupGoesThatIsKept(t *testing.T) { // PGP-3, PGP-7
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		w.judge(t, w.group, decide(t, w, w.ofPodGroups(), "gang", planGroup), podGroupProtection)
		w.judge(t, w.fleet, decide(t, w, w.ofComposites(), "fleet", planComposite), compositeProtection)
	})
}

// Whoever stops keeping a group that is being deleted enqueues it: no change of a member is missed.
func TestWhoLeavesEnqueues(t *testing.T) { // PGP-4
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		for _, before := range append(w.cached, w.live...) {
			after := plan.Object(nil)
			if p, ok := before.(*pod); ok && rapid.Bool().Draw(t, "stays") {
				after = edited(p.DeepCopy(), []edit{in(rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning, corev1.PodFailed}).Draw(t, "phase"))})
			}
			check := func(g plan.Object, keys []plan.Key) {
				left := keeps(before, g) && (after == nil || !keeps(after, g)) && g.GetDeletionTimestamp() != nil
				if got := slices.Contains(keys, plan.KeyOf(g)); got != left {
					t.Errorf("%s enqueues %v", before.GetName(), keys)
				}
			}
			switch before.(type) {
			case *pod:
				check(w.group, w.ofPodGroups().enqueuedBy(pods())(before, after))
			case *podGroup:
				check(w.fleet, w.ofComposites().enqueuedBy(podGroups())(before, after))
			case *compositePodGroup:
				check(w.fleet, w.ofComposites().enqueuedBy(composites())(before, after))
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		after := rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "after")
		same(t, observed(t, w.ofPodGroups(), "gang", after).Snapshot, planGroup)
		same(t, observed(t, w.ofComposites(), "fleet", after).Snapshot, planComposite)
	})
}

func same[G group](t *rapid.T, s snapshot[G], planned func(time.Time, snapshot[G]) plan.Plan) {
	p, again := planned(epoch, s), planned(epoch, plantest.Restored(t, s))
	if again.Why != p.Why || again.Empty() != p.Empty() || again.Requeue != p.Requeue || !slices.Equal(again.Proof, p.Proof) {
		t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
	}
}

// What is not cached changes nothing: neither which group a pod keeps, nor what is planned.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		p, g := &pod{}, newGroup("gang")
		fill(p)
		fill(g)
		g.SetManagedFields(nil) // which no cache has
		if rapid.Bool().Draw(t, "grouped") {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
		}
		projected, err := kept.Project(g)
		if err != nil {
			t.Fatal(err)
		}
		cached := projected.(*podGroup)
		if diff := cmp.Diff([]string{keptByPod(p), parent(g)}, []string{keptByPod(kept.ProjectPod(p)), parent(cached)}); diff != "" {
			t.Errorf("other groups are kept: %s", diff)
		}
		a, b := planGroup(epoch, seen{Group: g, Proved: true}), planGroup(epoch, seen{Group: cached, Proved: true})
		if a.Why != b.Why || a.Empty() != b.Empty() {
			t.Errorf("%s, and from the cache: %s", a.Why, b.Why)
		}
	})
}

// Names, gates and needs are those of the original.
func TestREG30Names(t *testing.T) {
	c := New(Options{})
	if c.Name != "podgroup-protection-controller" || c.Alias != "" || c.Account != c.Name || c.OffByDefault || c.Flags != nil ||
		fmt.Sprint(c.Gates, c.Needs) != "[GenericWorkload] [scheduling.k8s.io/v1beta1, Resource=podgroups]" ||
		fmt.Sprint(c.GatedUses) != "map[CompositePodGroup:[scheduling.k8s.io/v1beta1, Resource=compositepodgroups]]" {
		t.Errorf("%+v", c)
	}
	if (manager.Options{}).Enabled(groupGate) {
		t.Error("it is on by default")
	}
}
