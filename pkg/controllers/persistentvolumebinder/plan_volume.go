package persistentvolumebinder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// volumeSnapshot is what one reconcile of a volume has observed: the volume, and what is known of its claim.
// observeVolume fills it from the caches, proveVolume adds what was read live, and planVolume reads it. Its
// objects belong to shared caches.
type volumeSnapshot struct {
	Volume *corev1.PersistentVolume
	// Claim is the one that the volume names; nil if there is none. If it names none, it is one that was bound to it,
	// and names it still.
	Claim *corev1.PersistentVolumeClaim

	// Read says that the claim was read live, because the cache has none with the uid that the volume names, and Live
	// is the uid that was found; empty for no claim.
	Read bool
	Live types.UID
	// Replaced says how many volumes are for claims in whose place there are others, if somebody has to prove that this
	// one is to be released. Tripped says that so many are out of the ordinary, or were when this one was first held,
	// by this leader or the previous one, which is HeldSince. Early says that the volume is too new to decide.
	Replaced       share
	Tripped, Early bool
	HeldSince      time.Time

	Memory volumeMemory
}

// volumeMemory is what is remembered of a volume. observeVolume notes what watches have shown, and
// rememberVolume what was decided.
type volumeMemory struct {
	Claim     types.UID // which the rest is about
	Deleted   bool      // a watch has shown the deletion of the claim
	Held      time.Time // since when the volume is held; zero if it is not
	LastEvent string    // the last event
}

// volumeDecision is what becomes of a volume. planVolume makes it; the memory and the metrics are made of it.
type volumeDecision struct {
	Release   bool // it is released now
	Held      time.Time
	LastEvent string
	Failed    bool // it cannot be deleted, and is Failed now
}

// planVolume says of a volume that it is Available, Released or Failed. That it is bound is said with its claim. Its
// helpers are given, in this order, the snapshot, the decision and the plan up to there, and the volume as it is to be.
func planVolume(now time.Time, s volumeSnapshot) (d volumeDecision, p plan.Plan) {
	v := s.Volume
	if v == nil {
		p.Why = "the volume is gone"
		return d, p
	}
	after := tidied(v)
	p.Steps = change(nil, v, after, "", "its annotations and finalizers say who deletes it")
	switch ref := v.Spec.ClaimRef; {
	case ref == nil && s.Claim != nil:
		p.Why = fmt.Sprintf("it is being bound again to the claim %s/%s", s.Claim.Namespace, s.Claim.Name)
		return d, p
	case ref == nil:
		return phase(d, p, after, corev1.VolumeAvailable, "", "it is free")
	case ref.UID == "" && s.Claim != nil && takes(s.Claim, v):
		p.Why = "it is being bound to the claim that it is reserved for"
		return d, p
	case ref.UID == "" && s.Claim == nil && fresh(now, v):
		p.Why, p.Requeue = fmt.Sprintf("it is reserved for the claim %s/%s, which may be about to come", ref.Namespace,
			ref.Name), claimFollows
		return d, p
	case ref.UID == "":
		return phase(d, p, after, corev1.VolumeAvailable, "",
			fmt.Sprintf("it is reserved for the claim %s/%s", ref.Namespace, ref.Name))
	case s.Claim != nil && s.Claim.UID == ref.UID:
		return planClaimed(s, p, after)
	}
	return planOrphan(now, s, p, after)
}

// claimFollows is how long after its creation a volume does not report that it waits for the claim that it is reserved
// for: the two are often created together, and it is Bound then with one write less. Times of creation are in whole
// seconds.
const claimFollows = 2 * time.Second

// fresh reports whether a volume was created a moment ago and nobody has said how it is.
func fresh(now time.Time, v *corev1.PersistentVolume) bool {
	age := now.Sub(v.CreationTimestamp.Time)
	return (v.Status.Phase == "" || v.Status.Phase == corev1.VolumePending) && age >= 0 && age < claimFollows
}

// takes reports whether a claim is about to be bound to a volume that is reserved for it.
func takes(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	class, _ := classOf(c)
	switch {
	case !names(v, c):
		return false
	case labels.Set(c.Annotations).Has(bindCompleted):
		return c.Spec.VolumeName == v.Name
	}
	return c.DeletionTimestamp == nil && (c.Spec.VolumeName == v.Name || c.Spec.VolumeName == "" && fits(c, class, v))
}

// planClaimed is about a volume whose claim exists (PV-38, PV-39).
func planClaimed(s volumeSnapshot, p plan.Plan, after *corev1.PersistentVolume) (d volumeDecision, _ plan.Plan) {
	c, v := s.Claim, s.Volume
	switch {
	case c.Spec.VolumeName == v.Name:
		p.Why = fmt.Sprintf("it is for the claim %s/%s", c.Namespace, c.Name)
		return d, p
	case c.Spec.VolumeName == "" && volumeMode(c.Spec.VolumeMode) != volumeMode(v.Spec.VolumeMode):
		e := event{corev1.EventTypeWarning, "VolumeMismatch",
			fmt.Sprintf("Cannot bind PersistentVolume to requested PersistentVolumeClaim \"%s/%s\" due to "+
				"incompatible volumeMode.", c.Namespace, c.Name)}
		p.Why = fmt.Sprintf("it is for the claim %s/%s, which wants the volume mode %s", c.Namespace, c.Name,
			volumeMode(c.Spec.VolumeMode))
		return recordEvent(s, d, p, e)
	case c.Spec.VolumeName == "":
		p.Why = fmt.Sprintf("it is for the claim %s/%s, which is not bound yet", c.Namespace, c.Name)
		return d, p
	case labels.Set(v.Annotations).Has(provisionedBy) && !labels.Set(v.Annotations).Has(boundByController) &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return release(s, p, after,
			fmt.Sprintf("it was made for the claim %s/%s, which is bound to %s", c.Namespace, c.Name,
				c.Spec.VolumeName))
	}
	p.Steps = change(nil, v, unbound(after), "", "its claim is bound to "+c.Spec.VolumeName)
	return phase(d, p, unbound(after), corev1.VolumeAvailable, "",
		fmt.Sprintf("it is let go, as the claim %s/%s is bound to %s", c.Namespace, c.Name, c.Spec.VolumeName))
}

// unbound returns the volume without what a controller has written of its claim (PV-39).
func unbound(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	after := v.DeepCopy()
	if !labels.Set(v.Annotations).Has(boundByController) {
		after.Spec.ClaimRef.UID = ""
		return after
	}
	after.Spec.ClaimRef = nil
	delete(after.Annotations, boundByController)
	return after
}

// What the brake holds, and why, in words.
const (
	heldVolumes = "volumes whose claims were replaced"
	heldWhy     = "their claims have other uids than those that they were bound to, as after a restore from a backup"
)

// heldFor is how long a volume is held at most.
const heldFor = time.Hour

// restoredTogether is how long after its creation a volume is not released whose claim has another uid: after a
// restore from a backup there are more such volumes, and the first ones are not to be taken for the only ones.
const restoredTogether = 10 * time.Second

// restored reports whether a volume is so new that it may come from a restore of many.
func restored(now time.Time, v *corev1.PersistentVolume) bool {
	age := now.Sub(v.CreationTimestamp.Time)
	return age >= 0 && age < restoredTogether
}

// lookAtHeld is when a volume that is held is looked at again.
const lookAtHeld = 15 * time.Second

// planOrphan is about a volume whose claim is not in the cache. It is released when a live read has shown that the
// claim is gone, or that another liveObject has its name (PV-37).
func planOrphan(
	now time.Time, s volumeSnapshot, p plan.Plan, after *corev1.PersistentVolume,
) (d volumeDecision, _ plan.Plan) {
	v, ref := s.Volume, s.Volume.Spec.ClaimRef
	d.LastEvent = s.Memory.LastEvent
	if v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
		return reclaim(s, p, after)
	}
	held := s.HeldSince
	if s.Tripped && held.IsZero() {
		held = now
	}
	switch {
	case s.Tripped && now.Sub(held) < heldFor:
		d.Held, p.Requeue = held, lookAtHeld
		p.Hold = plan.Hold{What: heldVolumes, Why: heldWhy}
		p.Why = fmt.Sprintf(
			"it is held: its claim %s/%s has been replaced by one with another uid. So it is with %s, as after claims "+
				"were restored from a backup",
			ref.Namespace, ref.Name, s.Replaced)
		return d, p
	case s.Early:
		p.Requeue = v.CreationTimestamp.Add(restoredTogether).Sub(now)
		p.Why = fmt.Sprintf(
			"it is new, and its claim %s/%s has another uid than the one that it names: whether there are more such "+
				"volumes shows in a moment", ref.Namespace, ref.Name)
		return d, p
	case !s.Read:
		p.Why, p.Proof = "its claim is not in the cache", []plan.Ref{claimRef(ref.Namespace, ref.Name)}
		return d, p
	case s.Live == ref.UID, s.Live != "" && s.Claim == nil: // of another one, the cache is to show how it came about
		p.Why, p.Requeue = fmt.Sprintf("the claim %s/%s exists, which the cache does not show yet", ref.Namespace,
			ref.Name), late
		return d, p
	}
	d, p = release(s, p, after, fmt.Sprintf("its claim %s/%s is gone", ref.Namespace, ref.Name))
	if s.Tripped {
		p.Hold.Ended = plan.ByTime
	}
	return d, p
}

// release says that a volume is Released, or, if it is said already, what becomes of it.
func release(
	s volumeSnapshot, p plan.Plan, after *corev1.PersistentVolume, why string,
) (d volumeDecision, _ plan.Plan) {
	if s.Volume.Status.Phase == corev1.VolumeReleased || s.Volume.Status.Phase == corev1.VolumeFailed {
		return reclaim(s, p, after)
	}
	d.Release = true
	return phase(d, p, after, corev1.VolumeReleased, "", why)
}

// phase brings the status of a volume to a phase.
func phase(
	d volumeDecision, p plan.Plan, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message, why string,
) (volumeDecision, plan.Plan) {
	after := v.DeepCopy()
	after.Status.Phase, after.Status.Message = phase, message
	p.Steps = change(p.Steps, v, after, plan.Status, why)
	p.Why = why
	return d, p
}

// reclaim says what becomes of a volume that is Released (PV-50..57).
func reclaim(s volumeSnapshot, p plan.Plan, after *corev1.PersistentVolume) (d volumeDecision, _ plan.Plan) {
	v := s.Volume
	by := v.Annotations[provisionedBy]
	external := by != "" && !strings.HasPrefix(by, inTree) || by == "" && v.Spec.CSI != nil ||
		labels.Set(after.Annotations).Has(migratedTo)
	d.LastEvent = s.Memory.LastEvent
	switch policy := v.Spec.PersistentVolumeReclaimPolicy; {
	case policy == corev1.PersistentVolumeReclaimRetain && v.Status.Phase == corev1.VolumeFailed:
		p.Why = "it is Failed, and stays so until its claimRef is removed: " + v.Status.Message
	case policy == corev1.PersistentVolumeReclaimRetain:
		p.Why = "it is Released, and stays so until its claimRef is removed, because its policy is Retain"
	case policy == corev1.PersistentVolumeReclaimDelete && external:
		p.Why = "it is Released, and its driver deletes it"
	case policy == corev1.PersistentVolumeReclaimDelete:
		return fail(s, p, after, "VolumeFailedDelete",
			"no driver deletes this volume: delete what it stands for, set its reclaim policy to Retain, and delete "+
				"the PersistentVolume")
	case policy == corev1.PersistentVolumeReclaimRecycle:
		return fail(s, p, after, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	default:
		return fail(s, p, after, "VolumeUnknownReclaimPolicy",
			fmt.Sprintf("the reclaim policy %q is not known", policy))
	}
	return d, p
}

// fail says that a volume cannot be reclaimed.
func fail(
	s volumeSnapshot, p plan.Plan, after *corev1.PersistentVolume, reason, message string,
) (d volumeDecision, _ plan.Plan) {
	d.Failed = s.Volume.Status.Phase != corev1.VolumeFailed
	d, p = phase(d, p, after, corev1.VolumeFailed, message, "it is Failed: "+message)
	if s.Volume.Status.Phase == corev1.VolumeFailed && s.Volume.Status.Message == message {
		return d, p // whoever has written that has also said it
	}
	return recordEvent(s, d, p, event{corev1.EventTypeWarning, reason, message})
}

// recordEvent records an event of the volume, once.
func recordEvent(s volumeSnapshot, d volumeDecision, p plan.Plan, e event) (volumeDecision, plan.Plan) {
	if d.LastEvent = e.dedupKey(); s.Memory.LastEvent != d.LastEvent {
		p.Steps = append(p.Steps, e.of(s.Volume))
	}
	return d, p
}

// Finalizers of volumes (PV-12).
const (
	ownFinalizer      = "kubernetes.io/pv-controller"
	externalFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// tidied returns a copy of a volume that names its deleter: the driver that has taken over its plugin, and by
// finalizers, whether a plugin of Kubernetes has to before the volume may go (PV-11, PV-12).
func tidied(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	after := v.DeepCopy()
	by := v.Annotations[provisionedBy]
	after.Annotations = migrated(after.Annotations, by)
	switch {
	case volumes.CSIDriverOf(by) != "":
		drop(after, ownFinalizer)
	case strings.HasPrefix(by, inTree):
		drop(after, externalFinalizer)
		if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			drop(after, ownFinalizer)
		} else if v.DeletionTimestamp == nil && !slices.Contains(v.Finalizers, ownFinalizer) {
			after.Finalizers = append(after.Finalizers, ownFinalizer)
		}
	}
	return after
}

// drop takes a finalizer off a volume, which is the caller's own copy.
func drop(v *corev1.PersistentVolume, finalizer string) {
	v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == finalizer })
	if len(v.Finalizers) == 0 {
		v.Finalizers = nil
	}
}
