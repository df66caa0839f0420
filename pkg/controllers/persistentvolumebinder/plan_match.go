package persistentvolumebinder

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// classOf returns the class that a claim names, and whether it names one: "" is an explicit "none" (PV-13, PV-16).
func classOf(c *corev1.PersistentVolumeClaim) (name string, named bool) {
	if name, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name, true
	}
	return ptr.Deref(c.Spec.StorageClassName, ""), c.Spec.StorageClassName != nil
}

// classOfVolume returns the class of a volume (PV-13).
func classOfVolume(v *corev1.PersistentVolume) string {
	if name, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return v.Spec.StorageClassName
}

func requested(c *corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

func capacity(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

// names reports whether a volume is reserved for a claim: it names it, and no other one of that name (PV-22).
func names(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && (ref.UID == "" || ref.UID == c.UID)
}

// free reports whether a volume waits for a claim, whichever that is.
func free(v *corev1.PersistentVolume) bool {
	return v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable && v.DeletionTimestamp == nil
}

// misfits says what keeps a volume from a claim of a class; nothing if it may be bound to it. Of a volume that is reserved for the claim, class,
// selector and phase do not count (PV-29, PV-30, PV-31).
func misfits(c *corev1.PersistentVolumeClaim, class string, v *corev1.PersistentVolume) (why []string) {
	add := func(is bool, format string, values ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, values...))
		}
	}
	size, has := requested(c), capacity(v)
	if has.Cmp(size) < 0 {
		add(true, "has %s of %s", has.String(), size.String())
	}
	for _, m := range c.Spec.AccessModes {
		add(!slices.Contains(v.Spec.AccessModes, m), "lacks the access mode %s", m)
	}
	add(volumeMode(c.Spec.VolumeMode) != volumeMode(v.Spec.VolumeMode), "has the volume mode %s", volumeMode(v.Spec.VolumeMode))
	if is, wanted := ptr.Deref(v.Spec.VolumeAttributesClassName, ""), ptr.Deref(c.Spec.VolumeAttributesClassName, ""); is != wanted {
		add(true, "has the volume attributes class %q and not %q", is, wanted)
	}
	add(v.DeletionTimestamp != nil, "is being deleted")
	if names(v, c) {
		return why
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		add(v.Status.Phase != corev1.VolumeReleased, "is for the claim %s/%s", ref.Namespace, ref.Name)
		add(v.Status.Phase == corev1.VolumeReleased, "is Released, and free again when its claimRef is removed")
	} else {
		add(v.Status.Phase != corev1.VolumeAvailable, "is %s", cmp.Or(v.Status.Phase, corev1.VolumePending))
	}
	if of := classOfVolume(v); of != class {
		add(true, "has the class %q and not %q", of, class)
	}
	if c.Spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
		add(err != nil || !selector.Matches(labels.Set(v.Labels)), "lacks labels that are selected")
	}
	return why
}

func volumeMode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(m, corev1.PersistentVolumeFilesystem)
}

// mismatch says why a claim cannot have the volume that it names; empty if it can (PV-21, PV-33, PV-60). The selector does not count.
func mismatch(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	size, has := requested(c), capacity(v)
	class, _ := classOf(c)
	lacks := slices.ContainsFunc(c.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(v.Spec.AccessModes, m) })
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case has.Cmp(size) < 0:
		return "requested PV is too small"
	case classOfVolume(v) != class:
		return "storageClassName does not match"
	case ptr.Deref(v.Spec.VolumeAttributesClassName, "") != ptr.Deref(c.Spec.VolumeAttributesClassName, ""):
		return "volumeAttributesClassName does not match"
	case volumeMode(c.Spec.VolumeMode) != volumeMode(v.Spec.VolumeMode):
		return "incompatible volumeMode"
	case lacks:
		return "incompatible accessMode"
	}
	return ""
}

// best returns the volume that a claim is bound to, of those that it may be bound to; nil if there is none. One that is reserved for it comes
// before all others (PV-30). Of these, those with the fewest access modes come first, and of these the smallest (PV-28, PV-31). Which of
// several equal ones it is differs from claim to claim, so that claims that are planned at the same time do not all want the same one.
func best(c *corev1.PersistentVolumeClaim, class string, volumes []*corev1.PersistentVolume) (first *corev1.PersistentVolume) {
	for _, v := range volumes {
		if len(misfits(c, class, v)) == 0 && (first == nil || preferred(c, v, first) < 0) {
			first = v
		}
	}
	return first
}

func preferred(c *corev1.PersistentVolumeClaim, a, b *corev1.PersistentVolume) int {
	sizeA, sizeB := capacity(a), capacity(b)
	return cmp.Or(
		-cmp.Compare(reservation(a, c), reservation(b, c)),
		cmp.Compare(modesOf(a.Spec.AccessModes).count(), modesOf(b.Spec.AccessModes).count()),
		sizeA.Cmp(sizeB),
		cmp.Compare(chance(c.UID, a.UID), chance(c.UID, b.UID)),
		strings.Compare(a.Name, b.Name),
	)
}

// reservation is how much a volume is a claim's own: one that names its uid is more so than one that names it alone.
func reservation(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) int {
	switch {
	case !names(v, c):
		return 0
	case v.Spec.ClaimRef.UID == "":
		return 1
	}
	return 2
}

// chance is a number that differs for each pair, and is the same each time.
func chance(claim, volume types.UID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(claim) + "/" + string(volume)))
	return h.Sum64()
}

// modes is a set of access modes.
type modes uint8

// other stands for access modes that are not known here.
const other modes = 1 << 4

// every is the set of all access modes.
const every = other<<1 - 1

func modesOf(all []corev1.PersistentVolumeAccessMode) (m modes) {
	for _, one := range all {
		switch one {
		case corev1.ReadWriteOnce:
			m |= 1
		case corev1.ReadOnlyMany:
			m |= 1 << 1
		case corev1.ReadWriteMany:
			m |= 1 << 2
		case corev1.ReadWriteOncePod:
			m |= 1 << 3
		default:
			m |= other
		}
	}
	return m
}

func (m modes) count() int { return bits.OnesCount8(uint8(m)) }

// supersets returns the sets that contain the modes, the smallest first.
func (m modes) supersets() (all []modes) {
	for of := m; of <= every; of++ {
		if of&m == m {
			all = append(all, of)
		}
	}
	slices.SortStableFunc(all, func(a, b modes) int { return cmp.Compare(a.count(), b.count()) })
	return all
}

// shelf is what has to be equal of a claim and a volume: their class, and how the volume is to be.
func shelf(class string, mode *corev1.PersistentVolumeMode, attributes *string) string {
	return class + "\n" + string(volumeMode(mode)) + "\n" + ptr.Deref(attributes, "")
}

// place is where volumes of one size and one set of access modes are found on a shelf. Sizes are equal here that have the same number of bits.
func place(shelf string, m modes, size int) string { return fmt.Sprintf("%s\n%d\n%d", shelf, m, size) }

func sizeOf(q resource.Quantity) int { return bits.Len64(uint64(max(0, q.Value()))) }

// placesOf are the values of a volume in the index of free ones: its shelf, and its place on that. A volume that is not free has none.
func placesOf(v *corev1.PersistentVolume) []string {
	if !free(v) {
		return nil
	}
	on := shelf(classOfVolume(v), v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName)
	return []string{on, place(on, modesOf(v.Spec.AccessModes), sizeOf(capacity(v)))}
}

// largest is how many bits a size has at most.
const largest = 64

// found returns the volumes of one place that fit a claim, on the first place that has some, beginning with the smallest set of access modes and
// the smallest sizes. by is the index of free volumes.
func found(c *corev1.PersistentVolumeClaim, class string, by func(string) []*corev1.PersistentVolume) (fit []*corev1.PersistentVolume) {
	on := shelf(class, c.Spec.VolumeMode, c.Spec.VolumeAttributesClassName)
	if len(by(on)) == 0 {
		return nil
	}
	for _, m := range modesOf(c.Spec.AccessModes).supersets() {
		for size := sizeOf(requested(c)); size <= largest; size++ {
			for _, v := range by(place(on, m, size)) {
				if len(misfits(c, class, v)) == 0 {
					fit = append(fit, v)
				}
			}
			if len(fit) > 0 {
				return fewest(c, fit)
			}
		}
	}
	return nil
}

// handedOn is how many volumes that fit a claim are handed on to plan.
const handedOn = 4

func fewest(c *corev1.PersistentVolumeClaim, fit []*corev1.PersistentVolume) []*corev1.PersistentVolume {
	slices.SortFunc(fit, func(a, b *corev1.PersistentVolume) int { return preferred(c, a, b) })
	return fit[:min(len(fit), handedOn)]
}

// nearest returns the volumes of which the least keeps them from a claim.
func nearest(c *corev1.PersistentVolumeClaim, class string, volumes []*corev1.PersistentVolume) []*corev1.PersistentVolume {
	const most = 3
	wrong := make(map[*corev1.PersistentVolume]int, len(volumes))
	for _, v := range volumes {
		wrong[v] = len(misfits(c, class, v))
	}
	all := slices.SortedFunc(slices.Values(volumes), func(a, b *corev1.PersistentVolume) int {
		return cmp.Or(cmp.Compare(wrong[a], wrong[b]), strings.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), most)]
}

// selectable reports whether the selector of a claim can be read.
func selectable(c *corev1.PersistentVolumeClaim) bool {
	_, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	return c.Spec.Selector == nil || err == nil
}
