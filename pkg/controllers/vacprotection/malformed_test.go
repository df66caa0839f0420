package vacprotection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and what is written leaves nothing to do.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		class, claim, volume := newClass(), &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		for _, o := range []plan.Object{class, claim, volume} {
			fill(o)
		}
		class.Namespace, class.Name = "", "gold"
		if rapid.Bool().Draw(t, "protected") {
			class.Finalizers = append(class.Finalizers, finalizer)
		}
		if rapid.Bool().Draw(t, "used") {
			volume.Spec.VolumeAttributesClassName = &class.Name
		}
		k := newCaches(t, class, claim, volume)
		for _, c := range [][2]plan.Object{{nil, claim}, {claim, nil}, {claim, claim}} {
			k.enqueuedByUser(ofClaim(c[0]), ofClaim(c[1]))
		}
		k.enqueuedByUser(ofVolume(volume), nil)
		o, err := k.observe(t.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "gold"}})
		if err != nil {
			t.Fatal(err)
		}
		before := class.DeepCopy()
		p := planFinalizer(epoch, o.Snapshot)
		if diff := cmp.Diff(before, class); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
		if p.Empty() {
			return
		}
		if volume.Spec.VolumeAttributesClassName == &class.Name && class.DeletionTimestamp != nil {
			t.Errorf("%s: it is used", p.Why)
		}
		after := class.DeepCopy()
		if after.Finalizers = written(t, p); protection.Due(after) {
			t.Errorf("%s: it is not done", p.Why)
		}
	})
}
