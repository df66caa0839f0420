package vacprotection

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Who refers to a class, by whichever field, is found.
func TestObserve(t *testing.T) {
	doomed := newClass(leaving, with(finalizer))
	other := newClaim("b", "spec", "silver")
	moving := newClaim("moving", "spec", "silver")
	moving.Status.CurrentVolumeAttributesClassName = &doomed.Name
	for _, c := range []struct {
		name            string
		objects         []plan.Object
		claims, volumes users
	}{
		{"ST-42 nobody", []plan.Object{doomed, other, newVolume("disk", "silver"), newVolume("plain", ""), newClaim("plain", "", "")},
			users{}, users{}},
		{"ST-42 a claim by its spec", []plan.Object{doomed, other, newClaim("data", "spec", "gold")}, some(1, "shop", "data"), users{}},
		{"ST-42 a claim by what it has", []plan.Object{doomed, newClaim("data", "current", "gold")}, some(1, "shop", "data"), users{}},
		{"ST-42 a claim by what it is to have", []plan.Object{doomed, newClaim("data", "target", "gold")}, some(1, "shop", "data"),
			users{}},
		{"ST-42 one that leaves the class", []plan.Object{doomed, moving}, some(1, "shop", "moving"), users{}},
		{"ST-42 a volume", []plan.Object{doomed, newVolume("disk", "gold")}, users{}, some(1, "", "disk")},
		{"ST-88 of many the first by name",
			[]plan.Object{doomed, newClaim("c", "spec", "gold"), newClaim("a", "spec", "gold"), newClaim("b", "target", "gold"),
				newVolume("z", "gold"), newVolume("y", "gold")},
			some(3, "shop", "a"), some(2, "", "y")},
		{"a class that is not being deleted", []plan.Object{newClass(), newClaim("data", "spec", "gold")}, users{}, users{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := newCaches(t, c.objects...).observe(t.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "gold"}})
			if err != nil || !o.Exists || o.Snapshot.Class.Name != "gold" {
				t.Fatal(o, err)
			}
			if diff := cmp.Diff([]users{c.claims, c.volumes}, []users{o.Snapshot.Claims, o.Snapshot.Volumes}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if o, err := newCaches(t).observe(t.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "gold"}}); err != nil || o.Exists {
		t.Error(o, err)
	}
}

func TestEnqueuedByClass(t *testing.T) { // ST-41
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          int
	}{
		{"a new class that lacks the finalizer", nil, newClass(), 1},
		{"one that has lost it", newClass(with(finalizer)), newClass(), 1},
		{"one that has it", nil, newClass(with(finalizer)), 0},
		{"one that is being deleted and has it", newClass(with(finalizer)), newClass(leaving, with(finalizer)), 1},
		{"one that is being deleted and lacks it", newClass(leaving, with(finalizer)), newClass(leaving), 0},
		{"one that is gone", newClass(leaving, with(finalizer)), nil, 1},
	} {
		keys := protection.Enqueues(c.before, c.after)
		if len(keys) != c.want || c.want == 1 && keys[0] != (plan.Key{Name: "gold"}) {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}

func TestEnqueuedByUser(t *testing.T) {
	silver := newClass(leaving, with(finalizer))
	silver.Name = "silver"
	both := newClaim("data", "spec", "silver")
	both.Status.ModifyVolumeStatus = newClaim("", "target", "gold").Status.ModifyVolumeStatus
	k := newCaches(t, newClass(leaving, with(finalizer)), silver)
	calm := newCaches(t, newClass(with(finalizer)))
	for _, c := range []struct {
		name          string
		caches        *caches
		before, after plan.Object
		want          []string
	}{
		{"ST-41 a claim that is gone", k, newClaim("data", "spec", "gold"), nil, []string{"gold"}},
		{"ST-41 a volume that is gone", k, newVolume("disk", "gold"), nil, []string{"gold"}},
		{"ST-41 a claim that had two classes", k, both, nil, []string{"gold", "silver"}},
		{"ST-41 a claim that leaves one of them", k, both, newClaim("data", "spec", "silver"), []string{"gold"}},
		{"ST-41 a volume that leaves it", k, newVolume("disk", "gold"), newVolume("disk", "other"), []string{"gold"}},
		{"a claim that refers to it by another field", k, newClaim("data", "target", "gold"), newClaim("data", "current", "gold"), nil},
		{"a new one", k, nil, newClaim("data", "spec", "gold"), nil},
		{"one that came to refer to it", k, newVolume("disk", ""), newVolume("disk", "gold"), nil},
		{"a class that is not being deleted", calm, newClaim("data", "spec", "gold"), nil, nil},
		{"a class that is not there", calm, newClaim("data", "spec", "silver"), nil, nil},
	} {
		keys := c.caches.enqueuedByUser(ofClaim(c.before), ofClaim(c.after))
		keys = append(keys, c.caches.enqueuedByUser(ofVolume(c.before), ofVolume(c.after))...)
		var names []string
		for _, key := range keys {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
