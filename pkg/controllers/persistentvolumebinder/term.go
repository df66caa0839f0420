package persistentvolumebinder

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// claimTerm is what the controller knows beside its claims.
type claimTerm struct {
	Asked      cowmap.Map[types.UID, begun] // claims whose driver was asked
	RaceLosers lostVolumes
	Gone       goneClasses
	Offers     offers
}

// volumeTerm is what the controller knows beside its volumes.
type volumeTerm struct {
	Deleting cowmap.Map[types.UID, begun]  // volumes that their driver is to delete
	Held     cowmap.Map[string, types.UID] // volumes that the brake holds
	HeldSize int                           // of Held
	Replaced replaced
}

// begun is when something began, and with which driver.
type begun struct {
	driver string
	at     time.Time
}

func (k *caches) newClaimTerm() *reconcile.Term[claimTerm] {
	return reconcile.NewTerm(reconcile.TermOptions[claimTerm]{
		Next: k.nextClaimTerm,
		Expire: func(now time.Time, t claimTerm) (claimTerm, time.Duration) {
			var raceLosers, offers time.Duration
			t.RaceLosers, raceLosers = unexpired(now, t.RaceLosers)
			t.Offers, offers = t.Offers.expire(now)
			return t, plan.Sooner(raceLosers, offers)
		},
		Concerns: func(was, is claimTerm) bool { return was.Offers.due != is.Offers.due },
		Keys:     func(t claimTerm) iter.Seq[plan.Key] { return k.offered(t.Offers.due) },
	})
}

// nextClaimTerm follows claims that go, volumes that become free, and classes that come and go.
func (k *caches) nextClaimTerm(t claimTerm, before, after plan.Object) claimTerm {
	switch was := before.(type) {
	case *corev1.PersistentVolumeClaim:
		if after == nil {
			t.Asked = t.Asked.Without(was.UID)
		}
		return t
	case *storagev1.StorageClass:
		if after == nil {
			t.Gone = t.Gone.with(was, time.Now())
			return t
		}
	}
	switch is := after.(type) {
	case *corev1.PersistentVolume:
		was, _ := before.(*corev1.PersistentVolume)
		if on, waits := k.offerKey(t, was, is); waits {
			t.Offers = t.Offers.with(on, is.Name, time.Now())
		}
	case *storagev1.StorageClass:
		t.Gone = t.Gone.without(is.Name)
	}
	return t
}

func (k *caches) newVolumeTerm() *reconcile.Term[volumeTerm] {
	return reconcile.NewTerm(reconcile.TermOptions[volumeTerm]{
		Begin: func() volumeTerm { return volumeTerm{Replaced: k.allReplaced()} },
		Next:  k.nextVolumeTerm,
		End: func(t volumeTerm) {
			if t.HeldSize > 0 {
				k.brake.Release(heldVolumes, brake.NothingLeft)
			}
		},
	})
}

// nextVolumeTerm follows volumes that go, and claims that take the place of others.
func (k *caches) nextVolumeTerm(t volumeTerm, before, after plan.Object) volumeTerm {
	o := after
	if o == nil {
		o = before
	}
	if c, ok := o.(*corev1.PersistentVolumeClaim); ok {
		for _, v := range k.volumes.claimed.By(c.Namespace + "/" + c.Name) {
			t.Replaced = k.recount(t.Replaced, v.Name)
		}
		return t
	}
	t.Replaced = k.recount(t.Replaced, o.GetName())
	if after != nil {
		return t
	}
	t.Deleting = t.Deleting.Without(o.GetUID())
	return k.freed(t, o.GetName(), brake.NothingLeft)
}

// held notes that the brake holds a volume.
func (k *caches) held(t volumeTerm, v *corev1.PersistentVolume) volumeTerm {
	if _, held := t.Held.Get(v.Name); !held {
		t.Held = t.Held.With(v.Name, v.UID)
		t.HeldSize++
	}
	const why = "their claims have other uids than those that they were bound to, as after a restore from a backup"
	k.brake.Hold(time.Now(), heldVolumes, why)
	return t
}

// freed notes that the brake does not hold a volume any more.
func (k *caches) freed(t volumeTerm, volume string, cause brake.Cause) volumeTerm {
	if _, held := t.Held.Get(volume); !held {
		return t
	}
	t.Held = t.Held.Without(volume)
	if t.HeldSize--; t.HeldSize == 0 {
		k.brake.Release(heldVolumes, cause)
	}
	return t
}
