package persistentvolumebinder

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/testing/termtest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
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
				v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: c.Name,
					UID: rapid.SampledFrom([]types.UID{"", c.UID, "x"}).Draw(t, "uid")}
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
		{"its claim comes", nil, claim("pair", ""), 2}, {"its claim goes", claim("pair", ""), nil, 2},
		{"its claim is bound", claim("pair", ""), claim("pair", "volume=v"), 2},
		{"its claim changes", claim("pair", "volume=v"), claim("pair", "volume=v phase=Bound"), 0},
		{"another claim of the name", claim("pair", ""), claim("pair", "uid=x"), 2},
		{"a claim of no volume", nil, claim("other", ""), 0},
	} {
		if got := k.volumesByClaim(row.before, row.after); len(got) != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// Who has lost a volume is woken by a change of it, for a moment.
func TestLosersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := emptyCaches(t)
		termtest.Begin(t, k.claimTerm)
		woken := func() bool {
			keys := k.claimsByVolume(volume("v", ""), volume("v", "of=pair"))
			return slices.Contains(keys, plan.Key{Namespace: "shop", Name: "loser"})
		}
		k.show(volume("v", "of=pair"))
		s := claimSnapshot{Claim: claim("loser", ""), Free: []*corev1.PersistentVolume{k.volumes.Get("", "v")}}
		k.claimApplied(s, claimDecision{Bind: "v"}, plan.Outcome{Err: plan.ErrStale})
		if !woken() {
			t.Error("it is not woken")
		}
		time.Sleep(lostFor)
		synctest.Wait()
		if woken() {
			t.Error("it is woken though it has looked anew")
		}
	})
}

// Volumes whose claims were replaced count as soon as the caches show it, and each once. It makes no difference whether the term follows
// that.
func TestReplacedAreCounted(t *testing.T) {
	t.Run("followed", func(t *testing.T) {
		k := emptyCaches(t)
		termtest.Begin(t, k.volumeTerm)
		nothing := func(_, _ plan.Object) []plan.Key { return nil }
		watch := k.volumeTerm.Follow(reconcile.Watch{Enqueues: nothing})
		replacedAreCounted(t, k, func(o plan.Object) {
			k.show(o)
			watch.Enqueues(nil, o)
		})
	})
	t.Run("counted anew", func(t *testing.T) {
		k := emptyCaches(t)
		replacedAreCounted(t, k, k.show)
	})
}

func replacedAreCounted(t *testing.T, k *caches, show func(plan.Object)) {
	for i := range 4 {
		show(volume(fmt.Sprint("v-", i), fmt.Sprint("phase=Bound of=c-", i)))
	}
	show(volume("free", ""))
	show(volume("reserved", "for=c-0 phase=Bound"))
	show(volume("over", "of=c-1 phase=Released"))
	show(volume("restored", "of=c-1 phase=Pending"))
	show(claim("c-0", ""))
	show(claim("c-1", "uid=new"))
	ask := func(name string, at time.Duration, replaced, bound int) {
		t.Helper()
		for _, s := range k.shares(k.volumes.Get("", name), epoch.Add(at)) { // all are in one namespace and of one class
			if s.Replaced != replaced || s.Bound != bound {
				t.Errorf("%s: %s, want %d of %d", name, s, replaced, bound)
			}
		}
	}
	ask("v-1", 0, 2, 5)
	show(claim("c-2", "uid=new"))
	show(claim("c-3", "uid=new"))
	ask("v-2", countedFor-1, 4, 5)
	ask("v-0", countedFor-1, 5, 5) // which counts itself
	ask("v-2", countedFor-1, 4, 5)
	for i := range 4 {
		show(volume(fmt.Sprint("w-", i), "of=c-3 phase=Pending"))
		ask(fmt.Sprint("w-", i), countedFor-1, 5+i, 5+i)
	}
	ask("v-1", countedFor+time.Second, 8, 9)
}
