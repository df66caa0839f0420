package persistentvolumebinder

import (
	"errors"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
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
	Deleting cowmap.Map[types.UID, begun] // volumes that their driver is to delete
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

// claimApplied is called when a plan of a claim was carried out or has failed.
func (k *caches) claimApplied(s claimSnapshot, d claimDecision, did plan.Outcome) {
	if s.Claim == nil {
		return
	}
	if d.Bind != "" && errors.Is(did.Err, plan.ErrStale) {
		k.addRaceLoser(s, d.Bind)
	}
	t, _ := k.claimTerm.Get()
	if _, waits := t.Asked.Get(s.Claim.UID); did.Err != nil || waits == (d.Waits != "") {
		return
	}
	k.claimTerm.Update(func(t claimTerm) claimTerm {
		if t.Asked = t.Asked.Without(s.Claim.UID); d.Waits != "" {
			t.Asked = t.Asked.With(s.Claim.UID, begun{d.Waits, time.Now()})
		}
		return t
	})
}

// addRaceLoser has a claim look for another volume when the cache shows that the one it was to have is taken,
// unless it does so already.
func (k *caches) addRaceLoser(s claimSnapshot, volume string) {
	now := k.volumes.Get("", volume)
	if now == nil || now != s.Volume && !slices.Contains(s.Reserved, now) && !slices.Contains(s.Free, now) {
		return
	}
	k.claimTerm.Update(func(t claimTerm) claimTerm {
		lost, _ := t.RaceLosers.Get(now.UID)
		t.RaceLosers = t.RaceLosers.With(now.UID, lost.with(plan.KeyOf(s.Claim), time.Now()))
		return t
	})
}

// volumeApplied is called when a plan of a volume was carried out or has failed.
func (k *caches) volumeApplied(v *corev1.PersistentVolume, d volumeDecision, did plan.Outcome) {
	if v == nil || did.Err != nil || !d.Release {
		return
	}
	by := v.Annotations[provisionedBy]
	if by == "" || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return
	}
	k.volumeTerm.Update(func(t volumeTerm) volumeTerm {
		t.Deleting = t.Deleting.With(v.UID, begun{by, time.Now()})
		return t
	})
}

func (k *caches) newVolumeTerm() *reconcile.Term[volumeTerm] {
	return reconcile.NewTerm(reconcile.TermOptions[volumeTerm]{
		Begin: func() volumeTerm { return volumeTerm{Replaced: k.allReplaced()} },
		Next:  k.nextVolumeTerm,
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
	if after == nil {
		t.Deleting = t.Deleting.Without(o.GetUID())
	}
	return t
}
