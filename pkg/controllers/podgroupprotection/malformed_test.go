package podgroupprotection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and no group goes that is kept.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		p, g, c := &pod{}, &podGroup{}, &compositePodGroup{}
		for _, o := range []plan.Object{p, g, &c.CompositePodGroup} {
			fill(o)
		}
		g.Namespace, g.Name, c.Namespace, c.Name = "shop", "gang", "shop", "fleet"
		if rapid.Bool().Draw(t, "protected") {
			g.Finalizers, c.Finalizers = append(g.Finalizers, finalizer), append(c.Finalizers, compositeFinalizer)
		}
		if rapid.Bool().Draw(t, "kept") {
			p.Namespace, p.Status.Phase = "shop", corev1.PodRunning
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
			g.Spec.ParentCompositePodGroupName = ptr.To("fleet")
		}
		w := &world{stores: cachesWith(t, p, g, c), cached: []plan.Object{p, g, c}, live: []plan.Object{p, g}}
		for _, one := range [][2]plan.Object{{nil, p}, {p, nil}, {p, p}, {nil, g}, {g, nil}, {nil, c}, {c, nil}} {
			w.ofPodGroups().enqueuedBy(pods())(one[0], one[1])
			w.ofComposites().enqueuedBy(podGroups())(one[0], one[1])
			w.ofComposites().enqueuedBy(composites())(one[0], one[1])
		}
		before := []plan.Object{g.DeepCopy(), &compositePodGroup{*c.DeepCopy()}}
		decided(t, w, g, decide(t, w, w.ofPodGroups(), "gang", planGroup))
		decided(t, w, c, decide(t, w, w.ofComposites(), "fleet", planComposite))
		if diff := cmp.Diff(before, []plan.Object{g, c}); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}

// decided checks that a group that goes is kept by nothing.
func decided(t *rapid.T, w *world, g plan.Object, p plan.Plan) {
	written(t, p)
	if !p.Empty() && g.GetDeletionTimestamp() != nil && kept(g, w.cached) {
		t.Errorf("%s: it is kept", p.Why)
	}
}

// The caches are waited for as long as they were given, from when the deletion was first seen.
func TestPatience(t *testing.T) {
	w := cachesWith(t, newGroup("gang", leaving, with(finalizer)))
	for after, waits := range map[time.Duration]bool{0: true, patience - 1: true, patience: false, time.Hour: false} {
		p := planGroup(epoch, observed(t, w.ofPodGroups(), "gang", after).Snapshot)
		if (p.Requeue > 0) != waits || (len(p.Proof) > 0) == waits {
			t.Errorf("after %v: %+v", after, p)
		}
	}
}
