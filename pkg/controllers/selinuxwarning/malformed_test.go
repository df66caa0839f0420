package selinuxwarning

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, and nothing that was observed is changed.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		p, q := &corev1.Pod{}, &corev1.Pod{}
		claim, volume, d := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.CSIDriver{}
		for _, o := range []any{p, q, claim, volume, d} {
			fill(o)
		}
		source := rapid.IntRange(0, 1000).Draw(t, "source")
		plantest.OneOf(&volume.Spec.PersistentVolumeSource, source)
		for i := range p.Spec.Volumes {
			plantest.OneOf(&p.Spec.Volumes[i].VolumeSource, source)
		}
		if rapid.Bool().Draw(t, "claimed") {
			claiming("disk")(q)
			claim, volume = newClaim("disk"), newVolume("disk", volume.Spec.PersistentVolumeSource)
			q.Namespace = "shop"
		}
		before := []plan.Object{p.DeepCopy(), q.DeepCopy(), claim.DeepCopy(), volume.DeepCopy(), d.DeepCopy()}
		k := cachesWith(t, p, q, claim, volume, d)
		keys := k.enqueuedByPod(nil, p)
		keys = append(keys, k.enqueuedByPod(p, q)...)
		keys = append(keys, k.enqueuedByClaim(claim, nil)...)
		keys = append(keys, k.enqueuedByVolume(nil, volume)...)
		keys = append(keys, k.enqueuedByDriver(d, nil)...)
		for _, key := range append(keys, plan.Key{Name: disk}, plan.Key{}) {
			o, err := k.observe(t.Context(), request{Key: key})
			if err != nil {
				t.Error(err)
			}
			planEvents(epoch, o.Snapshot)
		}
		if diff := cmp.Diff(before, []plan.Object{p, q, claim, volume, d}); diff != "" {
			t.Errorf("what was observed is changed: %s", diff)
		}
	})
}
