package deployment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// What is remembered of templates must be what a comparison would find, whatever has changed since the last look.
func TestTemplateMatchesAreNeverOutdated(t *testing.T) {
	var known templateMatches
	d := plantest.Deployment("web", 3)
	d.Spec.Template = plantest.Template("web", "1")
	d.Generation = 1
	a := plantest.ReplicaSet("a", 3, plantest.Template("web", "1"), plantest.OwnedBy(d))
	b := plantest.ReplicaSet("b", 0, plantest.Template("web", "2"), plantest.OwnedBy(d))
	for _, step := range []struct {
		name string
		edit func()
	}{
		{"first look", func() {}},
		{"nothing has changed", func() {}},
		{"the Deployment has another template", func() { d.Generation, d.Spec.Template.Spec.Containers[0].Image = 2, "web:2" }},
		{"a ReplicaSet has another template", func() { a.Generation, a.Spec.Template.Spec.Containers[0].Image = 2, "web:2" }},
		{"a collision", func() { d.Status.CollisionCount = ptr.To[int32](1) }},
		{"another Deployment of the same name and generation",
			func() { d.UID, d.Spec.Template.Spec.Containers[0].Image = "other", "web:3" }},
	} {
		d, a, b = d.DeepCopy(), a.DeepCopy(), b.DeepCopy()
		step.edit()
		known = known.renewed(d, []*appsv1.ReplicaSet{a, b})
		for _, rs := range []*appsv1.ReplicaSet{a, b} {
			if got, want := known.matches(rs, &d.Spec.Template), sameTemplate(&rs.Spec.Template, &d.Spec.Template); got != want {
				t.Errorf("%s: %s has the template: %t, want %t", step.name, rs.Name, got, want)
			}
		}
		gotName, gotHash := known.newName(d)
		if name, hash := newName(d); gotName != name || gotHash != hash {
			t.Errorf("%s: new name %s (%s), want %s (%s)", step.name, gotName, gotHash, name, hash)
		}
	}
}
