package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// bindings are the claims, volumes and classes that exist, with when others last changed whom a volume is for.
type bindings struct {
	claims  map[types.UID]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume // by name
	classes map[string]*storagev1.StorageClass
	edited  map[string]time.Time // by name of a volume: when somebody else made it, took it away or changed its claimRef
}

func newBindings() *bindings {
	return &bindings{
		claims: map[types.UID]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{},
		edited:  map[string]time.Time{},
	}
}

// apply follows a revision.
func (b *bindings) apply(r *revision, now time.Time) {
	switch o := r.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		if b.claims[o.UID] = o; r.Type == Deleted {
			delete(b.claims, o.UID)
		}
	case *corev1.PersistentVolume:
		old, _ := r.old.(*corev1.PersistentVolume)
		if !r.manager && (old == nil || r.Type == Deleted || reference(old) != reference(o)) {
			b.edited[o.Name] = now
		}
		if b.volumes[o.Name] = o; r.Type == Deleted {
			delete(b.volumes, o.Name)
		}
	case *storagev1.StorageClass:
		if b.classes[o.Name] = o; r.Type == Deleted {
			delete(b.classes, o.Name)
		}
	}
}

// complete reports whether a claim says that it was bound.
func complete(c *corev1.PersistentVolumeClaim) bool {
	_, ok := c.Annotations["pv.kubernetes.io/bind-completed"]
	return ok && c.Spec.VolumeName != ""
}

// reference is the claim that a volume is for.
func reference(v *corev1.PersistentVolume) (id struct{ namespace, name, uid string }) {
	if ref := v.Spec.ClaimRef; ref != nil {
		id.namespace, id.name, id.uid = ref.Namespace, ref.Name, string(ref.UID)
	}
	return id
}

// refers reports whether a volume is for a claim: by its uid or, before a manager has written that, by its name.
func refers(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := reference(v)
	return ref.uid == string(c.UID) || ref.uid == "" && ref.namespace == c.Namespace && ref.name == c.Name
}

// of returns the claim that a volume names by its uid; nil if there is none.
func (b *bindings) of(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	if v.Spec.ClaimRef == nil {
		return nil
	}
	return b.claims[v.Spec.ClaimRef.UID]
}

// lately reports whether something happened so short a time ago that a manager need not know of it.
func (j *judge) lately(when time.Time, r *revision) bool {
	// a watch that is late excuses nothing: versions decide, or live reads
	return !when.IsZero() && !when.Before(j.outages.of(r.author, "none").before(j.now, j.o.Lag))
}

// OneClaimPerVolume is S32: a claim that a manager binds has a volume that is for it, by its uid, and that no other claim says to have; and
// a volume that a manager takes for a claim was free, or was for that claim already, and the claim has no other one (PV-22, PV-26, PV-34,
// PV-80). Excused is what others changed within the lag of a manager: each of the four writes is decided by the version of one object
// alone.
func OneClaimPerVolume() Oracle {
	return Oracle{"S32", "a volume has one claim, and a claim one volume", func(j *judge) hooks {
		b := newBindings()
		return hooks{before: func(r *revision) {
			if !r.manager || r.Type == Deleted {
				return
			}
			switch o := r.Object.(type) {
			case *corev1.PersistentVolumeClaim:
				if old, ok := r.old.(*corev1.PersistentVolumeClaim); ok && complete(o) && !complete(old) {
					j.claimGets(r, o, b)
				}
			case *corev1.PersistentVolume:
				if old, ok := r.old.(*corev1.PersistentVolume); ok && o.Spec.ClaimRef != nil && reference(o).uid != "" &&
					reference(old) != reference(o) {
					j.volumeTaken(r, old, o, b)
				}
			}
		}, after: func(r *revision) { b.apply(r, j.now) }}
	}}
}

// claimGets judges that a manager says of a claim that it is bound to a volume.
func (j *judge) claimGets(r *revision, c *corev1.PersistentVolumeClaim, b *bindings) {
	v, name := b.volumes[c.Spec.VolumeName], c.Spec.VolumeName
	about := []string{PersistentVolume + "//" + name}
	for uid, other := range b.claims {
		if uid != c.UID && complete(other) && other.Spec.VolumeName == name && v != nil && reference(v).uid == string(uid) {
			j.judges(false)
			j.report(r, append(about, PersistentVolumeClaim+"/"+keyOf(other)), "it is bound to the volume %s, which the claim %s has", name,
				keyOf(other))
			return
		}
	}
	wrong := v == nil || reference(v).uid != string(c.UID)
	excused := wrong && j.lately(b.edited[name], r)
	if j.judges(excused); !wrong || excused {
		return
	}
	if v == nil {
		j.report(r, about, "it is bound to the volume %s, which does not exist", name)
		return
	}
	j.report(r, about, "it is bound to the volume %s, which is for %+v", name, reference(v))
}

// volumeTaken judges that a manager takes a volume for a claim.
func (j *judge) volumeTaken(r *revision, old, v *corev1.PersistentVolume, b *bindings) {
	was, is := reference(old), reference(v)
	about := []string{PersistentVolumeClaim + "/" + is.namespace + "/" + is.name}
	c := b.claims[types.UID(is.uid)]
	switch {
	case was.name != "" && (was.namespace != is.namespace || was.name != is.name || was.uid != ""):
		j.judges(false)
		j.report(r, about, "it was for %+v, and is taken for %+v", was, is)
	case c != nil && c.Spec.VolumeName != "" && c.Spec.VolumeName != v.Name:
		// The claim may have got its volume from another manager, or from its user, right before.
		excused := j.lately(b.edited[c.Spec.VolumeName], r) || j.lately(b.edited[v.Name], r)
		if j.judges(excused); !excused {
			j.report(r, about, "it is taken for a claim that has the volume %s", c.Spec.VolumeName)
		}
	default:
		j.judges(false)
	}
}

// NoReleaseWhileTheClaimLives is S33: a manager says that a volume is Released or Failed, or deletes it, only when no claim with the uid
// exists that the volume names, or when that claim has another volume (PV-37, PV-39, PV-82). Nothing is excused: whoever has a doubt reads
// the claim live, and a uid does not come back.
func NoReleaseWhileTheClaimLives() Oracle {
	return Oracle{"S33", "no volume is released while its claim lives", func(j *judge) hooks {
		b := newBindings()
		return hooks{before: func(r *revision) {
			v, ok := r.Object.(*corev1.PersistentVolume)
			old, had := r.old.(*corev1.PersistentVolume)
			if !ok || !had || !r.manager || reference(old).uid == "" {
				return
			}
			ends := r.deletes() && r.by != nil && r.by.Verb == "delete"
			if !ends && (r.Type == Deleted || lostClaim(old) || !lostClaim(v)) {
				return
			}
			c := b.of(old)
			j.judges(false)
			if c != nil && (c.Spec.VolumeName == "" || c.Spec.VolumeName == v.Name) {
				j.report(r, []string{PersistentVolumeClaim + "/" + keyOf(c)}, "it is %s, while its claim %s with the uid %s exists",
					map[bool]string{true: "deleted", false: string(v.Status.Phase)}[ends], keyOf(c), c.UID)
			}
		}, after: func(r *revision) { b.apply(r, j.now) }}
	}}
}

// lostClaim reports whether a volume says that it has lost its claim.
func lostClaim(v *corev1.PersistentVolume) bool {
	return v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
}

// BindingsLast is S34: of a claim and a volume that name each other, and of which the claim says that it was bound, a manager takes nothing
// back: the volume stays for the claim and Bound, and the claim stays or becomes Bound (PV-25), also where a backup has brought both.
// Excused is a volume that others have made or changed within the lag of a manager.
func BindingsLast() Oracle {
	return Oracle{"S34", "what is bound stays bound", func(j *judge) hooks {
		b := newBindings()
		return hooks{before: func(r *revision) {
			if !r.manager || r.Type == Deleted {
				return
			}
			switch o := r.Object.(type) {
			case *corev1.PersistentVolume:
				old, ok := r.old.(*corev1.PersistentVolume)
				if !ok {
					return
				}
				c := b.of(old)
				if c == nil || !complete(c) || c.Spec.VolumeName != o.Name {
					return
				}
				broken := reference(o) != reference(old) || old.Status.Phase == corev1.VolumeBound && o.Status.Phase != corev1.VolumeBound
				j.kept(r, broken, b.edited[o.Name],
					fmt.Sprintf("the claim %s is bound to it, and it is %s for %+v now", keyOf(c), o.Status.Phase, reference(o)))
			case *corev1.PersistentVolumeClaim:
				old, ok := r.old.(*corev1.PersistentVolumeClaim)
				v := b.volumes[o.Spec.VolumeName]
				if !ok || !complete(old) || v == nil || !refers(v, o) {
					return
				}
				broken := !complete(o) || o.Status.Phase != old.Status.Phase && o.Status.Phase != corev1.ClaimBound
				j.kept(r, broken, b.edited[v.Name], fmt.Sprintf("it is bound to the volume %s, and says %s now", v.Name, o.Status.Phase))
			}
		}, after: func(r *revision) { b.apply(r, j.now) }}
	}}
}

// kept judges whether a pair stays bound.
func (j *judge) kept(r *revision, broken bool, edited time.Time, message string) {
	excused := broken && j.lately(edited, r)
	if j.judges(excused); broken && !excused {
		j.report(r, nil, "%s", message)
	}
}

// WhatCanBeBoundIsBound is S35: when a manager that binds has come to rest, no claim waits that could be bound, and no volume says what is
// not so: a claim whose volume is there and is for it is Bound, no free volume fits a claim that waits, a class that makes volumes was
// asked, a claim without a class has the default one; a volume without a claim is Available, and one whose claim is gone is Released or
// Failed (PV-15 to PV-22, PV-31, PV-36, PV-37, PV-43, PV-71).
func WhatCanBeBoundIsBound() Oracle {
	return Oracle{"S35", "at rest, what can be bound is bound", func(j *judge) hooks {
		b := newBindings()
		return hooks{
			after: func(r *revision) { b.apply(r, j.now) },
			end: func() {
				if !j.o.Settled || !j.o.Unhindered || !j.o.Binds {
					return
				}
				for _, c := range b.claims {
					j.judges(false)
					if wrong := b.waitsInVain(c); wrong != "" {
						j.reportEnd(PersistentVolumeClaim, keyOf(c), nil, "%s: %s", c.Status.Phase, wrong)
					}
				}
				for _, v := range b.volumes {
					j.judges(false)
					if wrong := b.lies(v); wrong != "" {
						j.reportEnd(PersistentVolume, keyOf(v), nil, "%s: %s", v.Status.Phase, wrong)
					}
				}
			},
		}
	}}
}

// lies says what is wrong with the phase of a volume at the end.
func (b *bindings) lies(v *corev1.PersistentVolume) string {
	switch ref := v.Spec.ClaimRef; {
	case ref == nil && v.Status.Phase != corev1.VolumeAvailable && !b.wanted(v):
		return "it is for nobody"
	case ref != nil && ref.UID == "" && v.Status.Phase != corev1.VolumeAvailable:
		return "it is reserved, and nothing more"
	case ref != nil && ref.UID != "" && b.of(v) == nil && !lostClaim(v):
		return "its claim is gone"
	}
	return ""
}

// wanted reports whether a claim that was bound names a volume.
func (b *bindings) wanted(v *corev1.PersistentVolume) bool {
	for _, c := range b.claims {
		if complete(c) && c.Spec.VolumeName == v.Name {
			return true
		}
	}
	return false
}

// waitsInVain says why a claim should not be as it is at the end.
func (b *bindings) waitsInVain(c *corev1.PersistentVolumeClaim) string {
	v := b.volumes[c.Spec.VolumeName]
	mine := v != nil &&
		(reference(v).uid == string(c.UID) ||
			reference(v).uid == "" && reference(v).name == c.Name && reference(v).namespace == c.Namespace)
	switch {
	case c.Status.Phase == corev1.ClaimBound && !mine:
		return fmt.Sprintf("the volume %s is not for it", c.Spec.VolumeName)
	case c.Status.Phase == corev1.ClaimBound || c.DeletionTimestamp != nil && !complete(c):
		return ""
	case mine:
		return fmt.Sprintf("the volume %s is for it", v.Name)
	case c.Spec.VolumeName != "" || complete(c) || c.Annotations["pv.kubernetes.io/bind-completed"] != "":
		if v != nil && v.Spec.ClaimRef == nil && c.Status.Phase != corev1.ClaimLost && suits(c, v) && v.DeletionTimestamp == nil {
			return fmt.Sprintf("the volume %s that it names is free", v.Name)
		}
		return ""
	}
	return b.waits(c)
}

// waits is about a claim that names no volume.
func (b *bindings) waits(c *corev1.PersistentVolumeClaim) string {
	class, named := className(c)
	of := b.classes[class]
	late := of != nil && of.VolumeBindingMode != nil && *of.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	for _, name := range slices.Sorted(maps.Keys(b.volumes)) {
		v := b.volumes[name]
		reserved := reference(v).namespace == c.Namespace && reference(v).name == c.Name &&
			(reference(v).uid == "" || reference(v).uid == string(c.UID))
		switch {
		case v.DeletionTimestamp != nil || !large(c, v):
		case reserved:
			return fmt.Sprintf("the volume %s is reserved for it", name)
		case !late && v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable && suits(c, v) && chosen(c, v):
			return fmt.Sprintf("the volume %s is free and fits", name)
		}
	}
	if !named {
		for name, class := range b.classes {
			if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				return fmt.Sprintf("it has no class, and %s is the default class", name)
			}
		}
	}
	if of == nil || strings.HasPrefix(of.Provisioner, "kubernetes.io/") ||
		late && c.Annotations["volume.kubernetes.io/selected-node"] == "" {
		return ""
	}
	if asked := c.Annotations["volume.kubernetes.io/storage-provisioner"]; asked != of.Provisioner {
		return fmt.Sprintf("the driver %s was not asked, but %q", of.Provisioner, asked)
	}
	return ""
}

func className(c *corev1.PersistentVolumeClaim) (name string, named bool) {
	if name, ok := c.Annotations["volume.beta.kubernetes.io/storage-class"]; ok {
		return name, true
	}
	return ptr.Deref(c.Spec.StorageClassName, ""), c.Spec.StorageClassName != nil
}

// large reports whether a volume has what a claim asks for.
func large(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	has, wants := v.Spec.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, m := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			return false
		}
	}
	return has.Cmp(wants) >= 0 && ptr.Deref(v.Spec.VolumeMode, "Filesystem") == ptr.Deref(c.Spec.VolumeMode, "Filesystem") &&
		ptr.Deref(v.Spec.VolumeAttributesClassName, "") == ptr.Deref(c.Spec.VolumeAttributesClassName, "")
}

// suits reports whether a volume is what a claim asks for, apart from its labels.
func suits(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	class := v.Spec.StorageClassName
	if name, ok := v.Annotations["volume.beta.kubernetes.io/storage-class"]; ok {
		class = name
	}
	wanted, _ := className(c)
	return large(c, v) && class == wanted
}

// chosen reports whether a claim selects the labels of a volume.
func chosen(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	if c.Spec.Selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	return err == nil && s.Matches(labels.Set(v.Labels))
}
