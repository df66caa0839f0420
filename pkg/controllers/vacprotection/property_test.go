package vacprotection

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// world is a class, with claims and volumes that may refer to it.
type world struct {
	*caches
	class   *storagev1.VolumeAttributesClass
	claims  []*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume
}

func draw(t *rapid.T) world {
	w := world{class: newClass()}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 3, rapid.ID[int]).Draw(t, "class") {
		[]edit{leaving, func(c *storagev1.VolumeAttributesClass) { c.Finalizers = append(c.Finalizers, finalizer) },
			func(c *storagev1.VolumeAttributesClass) { c.Finalizers = append(c.Finalizers, "x") }}[i](w.class)
	}
	w.caches = newCaches(t, w.class)
	name := func(what string) string {
		return rapid.SampledFrom([]string{"gold", "silver", "", "silver"}).Draw(t, what)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "claims") {
		c := newClaim(fmt.Sprint(i), rapid.SampledFrom([]string{"spec", "current", "target", ""}).Draw(t, "field"), name("class"))
		if rapid.Bool().Draw(t, "moves") {
			c.Spec.VolumeAttributesClassName = ptr.To(name("next"))
		}
		w.claims = append(w.claims, c)
		w.cache(t, c)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "volumes") {
		v := newVolume(fmt.Sprint(i), name("class"))
		w.volumes = append(w.volumes, v)
		w.cache(t, v)
	}
	return w
}

// used reports whether anything in the world refers to the class, in whatever field.
func (w world) used() bool {
	return slices.ContainsFunc(w.claims, func(c *corev1.PersistentVolumeClaim) bool {
		m := c.Status.ModifyVolumeStatus
		return ptr.Deref(c.Spec.VolumeAttributesClassName, "") == "gold" ||
			ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "") == "gold" ||
			m != nil && m.TargetVolumeAttributesClassName == "gold"
	}) || slices.ContainsFunc(w.volumes, func(v *corev1.PersistentVolume) bool {
		return ptr.Deref(v.Spec.VolumeAttributesClassName, "") == "gold"
	})
}

func (w world) look(t interface{ Fatal(...any) }) snapshot {
	o, err := w.observe(context.Background(), reconcile.Request[struct{}]{Key: plan.Key{Name: "gold"}})
	if err != nil {
		t.Fatal(err)
	}
	return o.Snapshot
}

// A class loses the finalizer exactly when it is being deleted and nothing refers to it, gets it while it is not, and what was written
// leaves nothing to do.
func TestNoClassGoesThatIsUsed(t *testing.T) { // ST-42, ST-43
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		p := planFinalizer(epoch.Add(time.Hour), w.look(t))
		has, goes := slices.Contains(w.class.Finalizers, finalizer), w.class.DeletionTimestamp != nil
		want := !goes && !has || goes && has && !w.used()
		if p.Empty() == want {
			t.Fatalf("%s: it is used: %t", p.Why, w.used())
		}
		if p.Empty() {
			return
		}
		after := w.class.DeepCopy()
		after.Finalizers = written(t, p)
		if protection.Due(after) || len(protection.Enqueues(nil, after)) > 0 {
			t.Errorf("%s: it is not done", p.Why)
		}
	})
}

// Whoever stops referring to a class that is being deleted enqueues it: no change of a user is missed.
func TestWhoLeavesEnqueues(t *testing.T) { // ST-41, ST-93
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		before, after := classesOfClaim(newClaim("x", rapid.SampledFrom([]string{"spec", "current", "target"}).Draw(t, "before"), "gold")),
			[]string(nil)
		if rapid.Bool().Draw(t, "stays") {
			after = classesOfClaim(newClaim("x", rapid.SampledFrom([]string{"spec", "current", "target"}).Draw(t, "after"),
				rapid.SampledFrom([]string{"gold", "silver", ""}).Draw(t, "class")))
		}
		left := !slices.Contains(after, "gold") && w.class.DeletionTimestamp != nil
		if keys := w.enqueuedByUser(before, after); (len(keys) == 1) != left {
			t.Errorf("from %v to %v: %v", before, after, keys)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t).look(t)
		s.Proved = rapid.Bool().Draw(t, "proved")
		p := planFinalizer(epoch, s)
		if again := planFinalizer(epoch, plantest.Restored(t, s)); again.Why != p.Why || again.Empty() != p.Empty() ||
			again.Requeue != p.Requeue {
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
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		claim, volume, class := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, newClass()
		for _, o := range []plan.Object{claim, volume, class} {
			fill(o)
			o.SetManagedFields(nil) // which no cache has
		}
		var cached []plan.Object
		for _, o := range []plan.Object{claim, volume, class} {
			projected, err := kept.Project(o)
			if err != nil {
				t.Fatal(err)
			}
			cached = append(cached, projected.(plan.Object))
		}
		if diff := cmp.Diff(ofClaim(claim), ofClaim(cached[0])) + cmp.Diff(ofVolume(volume), ofVolume(cached[1])); diff != "" {
			t.Errorf("other classes are referred to: %s", diff)
		}
		a, b := planFinalizer(epoch, snapshot{Class: class}),
			planFinalizer(epoch, snapshot{Class: cached[2].(*storagev1.VolumeAttributesClass)})
		if a.Why != b.Why || a.Empty() != b.Empty() {
			t.Errorf("%s, and from the cache: %s", a.Why, b.Why)
		}
	})
}
