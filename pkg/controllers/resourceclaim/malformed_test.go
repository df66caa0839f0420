package resourceclaim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func validNames(name string) []string { return validation.IsDNS1123Subdomain(name) }

// project returns what the caches keep of an object.
func project[T plan.Object](t *rapid.T, keep func(runtime.Object) (runtime.Object, error), o T) T {
	kept, err := keep(any(o).(runtime.Object))
	if err != nil {
		t.Fatal(err)
	}
	return kept.(T)
}

// Whatever the objects are, nothing panics, nothing that was observed is changed, and nothing is made for or taken from another pod.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		p, c, template, g := &corev1.Pod{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{}, &podGroup{}
		for _, o := range []plan.Object{p, c, template, g} {
			fill(o)
		}
		g.Namespace, g.Name = "shop", "gang"
		p.Namespace, p.Name, p.UID = "shop", "web", "uid-web"
		c.Namespace, c.Name = "shop", "x"
		template.Namespace, template.Name = "shop", "gpu"
		if rapid.Bool().Draw(t, "entries") {
			wants("a", "gpu")(p)
			records("a", "x")(p)
		}
		if rapid.Bool().Draw(t, "reserved") {
			allocated(p)(c)
		}
		if rapid.Bool().Draw(t, "grouped") {
			grouped(p)
			wants("b", "gpu")(p)
			gang(p).Spec.DeepCopyInto(&g.Spec)
		}
		k := newTestCaches(t, p, c, template)
		if rapid.Bool().Draw(t, "gate") {
			k = newGroupedCaches(t, p, c, template, g)
			anyGroup(t, k, g, c, template)
		}
		for _, change := range [][2]plan.Object{{nil, c}, {c, nil}, {c, c}} {
			k.enqueuedByClaim(change[0], change[1])
			k.claimsByClaim(change[0], change[1])
		}
		for _, change := range [][2]plan.Object{{nil, p}, {p, nil}, {p, p}} {
			k.enqueuedByPod(change[0], change[1])
			k.claimsByPod(change[0], change[1])
		}
		k.enqueuedByTemplate(nil, template)
		o, err := k.observe(t.Context(), request[memory]("web"))
		if err != nil {
			t.Fatal(err)
		}
		before, claimBefore := p.DeepCopy(), c.DeepCopy()
		live(o.Snapshot)
		d, planned := planClaims(epoch, o.Snapshot)
		remember(epoch, o.Snapshot, d, plan.Outcome{})
		reportNames(epoch, o.Snapshot, d, done(created(planned)...))
		for _, made := range created(planned) {
			if !metav1.IsControlledBy(made, p) {
				t.Errorf("%s is created", made.Name)
			}
		}
		released, err := k.observeClaim(t.Context(), request[struct{}]("x"))
		if err != nil {
			t.Fatal(err)
		}
		planRelease(epoch, released.Snapshot)
		if diff := cmp.Diff(before, p) + cmp.Diff(claimBefore, c); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}

// anyGroup does what is done about a PodGroup.
func anyGroup(t *rapid.T, k *caches, g *podGroup, c *resourcev1.ResourceClaim, template *resourcev1.ResourceClaimTemplate) {
	before := g.DeepCopy()
	for _, change := range [][2]plan.Object{{nil, g}, {g, nil}, {g, g}} {
		k.groupsByGroup(change[0], change[1])
		k.podsByGroup(change[0], change[1])
		k.claimsByGroup(change[0], change[1])
	}
	k.groupsByClaim(nil, c)
	k.groupsByTemplate(nil, template)
	o, err := k.observeGroup(t.Context(), request[memory]("gang"))
	if err != nil {
		t.Fatal(err)
	}
	d, planned := planClaims(epoch, o.Snapshot)
	reportNames(epoch, o.Snapshot, d, done(created(planned)...))
	for _, made := range created(planned) {
		if !metav1.IsControlledBy(made, g) {
			t.Errorf("%s is created", made.Name)
		}
	}
	if diff := cmp.Diff(before, g); diff != "" {
		t.Errorf("the plan changes what was observed: %s", diff)
	}
}
