package pvprotection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// draw is any volume.
func draw(t *rapid.T) *corev1.PersistentVolume {
	v := volume()
	plantest.Anything(rapid.Int64().Draw(t, "seed"))(v)
	if rapid.Bool().Draw(t, "protected") {
		v.Finalizers = append(v.Finalizers, finalizer)
	}
	v.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumePhase{"", "Pending", "Available", "Bound", "Released", "Failed",
		"odd"}).Draw(t, "phase")
	return v
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot{Volume: draw(t)}
		p := planFinalizer(epoch, s)
		if again := planFinalizer(epoch, plantest.Restored(t, s)); again.Why != p.Why || again.Empty() != p.Empty() {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t)
		v.ManagedFields = nil // which no cache has
		cached, err := kept.Project(v)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := planFinalizer(epoch, snapshot{v}), planFinalizer(epoch, snapshot{cached.(*corev1.PersistentVolume)}); a.Why != b.Why ||
			a.Empty() != b.Empty() {
			t.Errorf("%s, and from the cache: %s", a.Why, b.Why)
		}
	})
}
