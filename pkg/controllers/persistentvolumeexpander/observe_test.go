package persistentvolumeexpander

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestObserve(t *testing.T) {
	foreign := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" }
	free := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }
	remembered := &memory{UID: "uid-data", Request: *saw("2Gi")}
	for _, c := range []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		volume  *corev1.PersistentVolume
		memory  *memory
		found   bool   // the volume
		seen    string // what the claim asked for before
		request string // that is remembered
	}{
		{"a claim that asks for more", newClaim(asks("2Gi")), newVolume(), nil, true, "", "2Gi"},
		{"ST-81 again", newClaim(asks("2Gi")), newVolume(), remembered, true, "2Gi", "2Gi"},
		{"ST-81 again, and it asks for even more", newClaim(asks("3Gi")), newVolume(), remembered, true, "2Gi", "3Gi"},
		{"it has got it: nothing is remembered", newClaim(asks("2Gi"), has("2Gi")), newVolume(), remembered, false, "", ""},
		{"another claim of that name", newClaim(asks("2Gi"), func(c *corev1.PersistentVolumeClaim) { c.UID = "new" }),
			newVolume(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "new" }), remembered, true, "", "2Gi"},
		{"ST-82 the volume of another claim", newClaim(asks("2Gi")), newVolume(foreign), nil, false, "", ""},
		{"ST-82 a volume of nobody", newClaim(asks("2Gi")), newVolume(free), nil, false, "", ""},
		{"ST-82 no volume", newClaim(asks("2Gi")), newVolume(func(v *corev1.PersistentVolume) { v.Name = "other" }), nil, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCaches(t, c.claim, c.volume)
			o, err := k.observe(t.Context(), request(c.memory))
			if err != nil || !o.Exists || o.Snapshot.Claim != c.claim || (o.Snapshot.Volume == c.volume) != c.found {
				t.Fatalf("%+v, %v", o, err)
			}
			if s := o.Snapshot.Seen; (s == nil) != (c.seen == "") || s != nil && s.String() != c.seen {
				t.Errorf("it was seen with %v", s)
			}
			if m := o.Memory; (m == nil) != (c.request == "") || m != nil && (m.Request.String() != c.request || m.UID != c.claim.UID) {
				t.Errorf("%+v is remembered", m)
			}
		})
	}
	if o, err := newCaches(t).observe(t.Context(), request(remembered)); err != nil || o.Exists {
		t.Errorf("a claim that is gone: %+v, %v", o, err)
	}
}

func TestEnqueuedByClaim(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          bool
	}{
		{"ST-1 a claim that asks for more when the controller begins", nil, newClaim(asks("2Gi")), true},
		{"ST-80 one that has what it asks for", nil, newClaim(), false},
		{"ST-1 one that comes to ask for more", newClaim(), newClaim(asks("2Gi")), true},
		{"one that is bound", newClaim(asks("2Gi"), phase(corev1.ClaimPending)), newClaim(asks("2Gi")), true},
		{"ST-1 one that has got it, so that it is forgotten", newClaim(asks("2Gi")), newClaim(asks("2Gi"), has("2Gi")), true},
		{"ST-1 one that is not bound", newClaim(phase(corev1.ClaimPending)), newClaim(asks("2Gi"), phase(corev1.ClaimPending)), false},
		{"one that changes otherwise", newClaim(), newClaim(named("x")), false},
		{"one that is gone while it waits", newClaim(asks("2Gi")), nil, true},
		{"one that is gone", newClaim(), nil, false},
	} {
		if got := enqueuedByClaim(c.before, c.after); (len(got) == 1 && got[0] == plan.Key{Namespace: "shop", Name: "data"}) != c.want ||
			len(got) > 1 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestEnqueuedByVolume(t *testing.T) { // ST-82
	free := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }
	foreign := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" }
	for _, c := range []struct {
		name          string
		claim         *corev1.PersistentVolumeClaim
		before, after plan.Object
		want          bool
	}{
		{"the volume comes after the claim has grown", newClaim(asks("2Gi")), nil, newVolume(), true},
		{"it comes to belong to the claim", newClaim(asks("2Gi")), newVolume(foreign), newVolume(), true},
		{"it came to belong to nobody", newClaim(asks("2Gi")), newVolume(), newVolume(free), false},
		{"it belongs to it as before", newClaim(asks("2Gi")), newVolume(), newVolume(ebs()), false},
		{"it belongs to another claim", newClaim(asks("2Gi")), nil, newVolume(foreign), false},
		{"the claim asks for nothing", newClaim(), nil, newVolume(), false},
		{"there is no such claim", newClaim(func(c *corev1.PersistentVolumeClaim) { c.Name = "other" }), nil, newVolume(), false},
		{"it is gone", newClaim(asks("2Gi")), newVolume(), nil, false},
	} {
		if got := newCaches(t, c.claim).enqueuedByVolume(c.before,
			c.after); (len(got) == 1 && got[0] == plan.Key{Namespace: "shop", Name: "data"}) != c.want || len(got) > 1 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
