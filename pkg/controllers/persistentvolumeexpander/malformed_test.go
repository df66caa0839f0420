package persistentvolumeexpander

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and only the annotation is written.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		c, v := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		fill(c)
		fill(v)
		c.Namespace, c.Name = "shop", "data"
		if rapid.Bool().Draw(t, "bound") {
			v.Name, c.Spec.VolumeName, c.Status.Phase = "disk", "disk", corev1.ClaimBound
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: c.UID}
			asks("2Gi")(c)
		}
		k := newCaches(t, c, v)
		enqueuedByClaim(nil, c)
		enqueuedByClaim(c, nil)
		k.enqueuedByVolume(nil, v)
		k.enqueuedByVolume(v, v)
		k.enqueuedByVolume(v, nil)
		m := &memory{}
		fill(m)
		o, err := k.observe(t.Context(), request(m))
		if err != nil {
			t.Fatal(err)
		}
		before := plantest.Restored(t, o.Snapshot)
		of(t, planHandOver(epoch, o.Snapshot))
		if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}
