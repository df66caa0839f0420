package persistentvolumebinder

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and what is written leaves nothing to do in a few rounds.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		w := newWorld(t)
		for i := range rapid.IntRange(1, 3).Draw(t, "objects") {
			c, v, s := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}
			fill(c)
			fill(v)
			fill(s)
			c.Namespace, c.Name, c.UID = "shop", fmt.Sprint("c", i), types.UID(fmt.Sprint("uid-c", i))
			v.Namespace, v.Name, v.UID = "", fmt.Sprint("v", i), types.UID(fmt.Sprint("uid-v", i))
			s.Namespace, s.Name = "", fmt.Sprint("s", i)
			if rapid.Bool().Draw(t, "named") {
				c.Spec.VolumeName = v.Name
			}
			if rapid.Bool().Draw(t, "reserved") {
				v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: c.Name, UID: rapid.SampledFrom([]types.UID{"", c.UID, "x"}).Draw(t, "uid")}
			}
			if rapid.Bool().Draw(t, "class") {
				c.Spec.StorageClassName, v.Spec.StorageClassName = &s.Name, s.Name
			}
			for _, o := range []plan.Object{c, v, s} {
				w.put(o)
			}
			w.managers[0].claimsByVolume(nil, v)
			w.managers[0].claimsByVolume(v, nil)
			w.managers[0].claimsByClass(s, nil)
			w.managers[0].volumesByClaim(nil, c)
			w.managers[0].volumesByClaim(c, c)
			plugin(v)
		}
		if rounds := w.settle(); rounds > 10 {
			t.Errorf("it does not come to rest: %d rounds", rounds)
		}
	})
}

// Events of all kinds of changes concern the keys that they should.
func TestWhoIsConcerned(t *testing.T) {
	k := emptyCaches(t)
	k.show(claim("waits", ""))
	k.show(claim("names", "volume=v"))
	k.show(claim("large", "99Gi"))
	k.show(volume("v", "of=pair"))
	k.show(volume("w", "of=pair"))
	claims := func(keys []plan.Key) map[string]bool {
		all := map[string]bool{}
		for _, key := range keys {
			all[key.Name] = true
		}
		return all
	}
	for _, row := range []struct {
		name          string
		before, after plan.Object
		want          string
	}{
		{"a free volume comes", nil, volume("x", ""), "map[waits:true]"},
		{"it becomes free", volume("x", "of=gone phase=Released"), volume("x", ""), "map[gone:true waits:true]"},
		{"it says the same again", volume("x", ""), volume("x", ""), "map[]"},
		{"it grows", volume("x", ""), volume("x", "999Gi"), "map[large:true waits:true]"},
		{"one that is named changes", volume("v", "of=pair"), volume("v", "of=pair phase=Bound"), "map[names:true pair:true]"},
		{"it goes", volume("v", "of=pair"), nil, "map[names:true pair:true]"},
	} {
		if got := fmt.Sprint(claims(k.claimsByVolume(row.before, row.after))); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	for _, row := range []struct {
		name          string
		before, after plan.Object
		want          int
	}{
		{"its claim comes", nil, claim("pair", ""), 2}, {"its claim goes", claim("pair", ""), nil, 2}, {"its claim is bound", claim("pair", ""), claim("pair", "volume=v"), 2},
		{"its claim changes", claim("pair", "volume=v"), claim("pair", "volume=v phase=Bound"), 0}, {"another claim of the name", claim("pair", ""), claim("pair", "uid=x"), 2},
		{"a claim of no volume", nil, claim("other", ""), 0},
	} {
		if got := k.volumesByClaim(row.before, row.after); len(got) != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
	k.lost.add("uid-v", plan.Key{Namespace: "shop", Name: "loser"})
	if got := claims(k.claimsByVolume(volume("v", ""), volume("v", "of=pair"))); !got["loser"] {
		t.Errorf("who has lost the volume is not woken: %v", got)
	}
	if got := claims(k.claimsByVolume(volume("v", ""), volume("v", "of=pair"))); got["loser"] {
		t.Error("it is woken again")
	}
}

// The number of volumes whose claims were replaced is counted once for all that ask at the same time. Of each of them it is known then, however often
// it asks.
func TestCounter(t *testing.T) {
	k := emptyCaches(t)
	for i := range 4 {
		k.show(volume(fmt.Sprint("v-", i), fmt.Sprint("phase=Bound of=c-", i)))
	}
	k.show(volume("free", ""))
	k.show(volume("reserved", "for=c-0 phase=Bound"))
	k.show(volume("over", "of=c-1 phase=Released"))
	k.show(volume("restored", "of=c-1 phase=Pending"))
	k.show(claim("c-0", ""))
	k.show(claim("c-1", "uid=new"))
	ask := func(name string, at time.Duration, replaced, bound int) {
		t.Helper()
		for _, s := range k.count.of(k, k.volumes.Get("", name), epoch.Add(at)) { // all are in one namespace and of one class
			if s.Replaced != replaced || s.Bound != bound {
				t.Errorf("%s: %s, want %d of %d", name, s, replaced, bound)
			}
		}
	}
	ask("v-1", 0, 2, 5)
	k.show(claim("c-2", "uid=new"))
	k.show(claim("c-3", "uid=new"))
	ask("v-2", countedFor-1, 3, 5)
	ask("v-2", countedFor-1, 3, 5)
	for i := range 4 {
		k.show(volume(fmt.Sprint("w-", i), "of=c-3 phase=Pending"))
		ask(fmt.Sprint("w-", i), countedFor-1, 4+i, max(5, 4+i))
	}
	ask("v-1", countedFor+time.Second, 8, 9)
}
