package devicetainteviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and a pod goes only if it is asked for live.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		p, c, s, r := &corev1.Pod{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceTaintRule{}
		for _, o := range []plan.Object{p, c, s, r} {
			fill(o)
			o.SetNamespace("")
			o.SetName("x")
		}
		p.Namespace, p.Name, p.UID, c.Namespace = "shop", "web", "uid-web", "shop"
		if rapid.Bool().Draw(t, "used") {
			names("x")(p)
			by(p)(c)
		}
		if rapid.Bool().Draw(t, "tainted") && c.Status.Allocation != nil {
			has("p", "d0")(c)
			s = newSlice("x", rapid.Int64().Draw(t, "generation"), bad("", 0))
			fill(&s.Spec.Devices[0].Taints[0].TimeAdded)
			r.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
		}
		k := newTestCaches(t, p, c, s, r)
		for _, change := range [][2]plan.Object{{nil, p}, {p, nil}, {p, p}} {
			k.enqueuedByPod(change[0], change[1])
			k.rulesByPod(change[0], change[1])
		}
		for _, change := range [][2]plan.Object{{nil, c}, {c, nil}, {c, c}} {
			k.enqueuedByClaim(change[0], change[1])
			k.rulesByClaim(change[0], change[1])
		}
		for _, change := range [][2]plan.Object{{nil, s}, {s, nil}, {s, s}} {
			k.enqueuedBySlice(change[0], change[1])
		}
		for _, change := range [][2]plan.Object{{nil, r}, {r, nil}, {r, r}} {
			k.enqueuedByRule(change[0], change[1])
			rulesBySpec(change[0], change[1])
			rulesByStatus(change[0], change[1])
			term{}.next(change[0], change[1])
		}
		o := k.look(t, memory{})
		before := plantest.Restored(t, o)
		d, planned := planEviction(epoch, o)
		remember(epoch, o, d, plan.Outcome{})
		if planned.Requeue < 0 || planned.Why == "" || deletes(planned) != (len(planned.Proof) > 0) {
			t.Errorf("%v: %q", said(planned), planned.Why)
		}
		rule, err := k.observeRule(t.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "x"}, Now: epoch})
		if err != nil {
			t.Fatal(err)
		}
		reportRule(epoch, rule.Snapshot, plan.Outcome{})
		if diff := cmp.Diff(before, plantest.Restored(t, o)); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}
