package persistentvolumebinder

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
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

// capacity is how much storage a volume has.
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

// demand is what a claim asks of volumes.
type demand struct {
	claim *corev1.PersistentVolumeClaim
	// class is that of the claim, or the default one if it gets that.
	class string
	// size is how much storage it asks for.
	size     resource.Quantity
	selector labels.Selector // what cannot be read selects nothing
}

// demandOf reads what a claim asks for, once for all volumes that it is compared with.
func demandOf(c *corev1.PersistentVolumeClaim, class string) demand {
	w := demand{claim: c, class: class, size: volumes.Requested(c), selector: labels.Everything()}
	if c.Spec.Selector == nil {
		return w
	}
	selector, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	if w.selector = selector; err != nil {
		w.selector = labels.Nothing()
	}
	return w
}

// misfits are what keeps a volume from a claim, as a set. The method keeps makes it, and explanations list
// what is in it.
type misfits uint16

const (
	tooSmall misfits = 1 << iota
	missingMode
	otherVolumeMode
	otherAttributes
	terminating
	reservedByOther
	released
	unavailable
	otherClass
	unselected
)

// has reports whether one of them is in the set.
func (m misfits) has(one misfits) bool { return m&one != 0 }

// count is how many there are.
func (m misfits) count() int { return bits.OnesCount16(uint16(m)) }

// misfits returns what keeps a volume from the claim; nothing if it may be bound to it. Of a volume that is reserved
// for the claim, class, selector and phase do not count (PV-29, PV-30, PV-31).
func (w *demand) misfits(v *corev1.PersistentVolume) (m misfits) {
	add := func(is bool, one misfits) {
		if is {
			m |= one
		}
	}
	c, has := w.claim, capacity(v)
	add(has.Cmp(w.size) < 0, tooSmall)
	for _, mode := range c.Spec.AccessModes {
		add(!slices.Contains(v.Spec.AccessModes, mode), missingMode)
	}
	add(volumeMode(c.Spec.VolumeMode) != volumeMode(v.Spec.VolumeMode), otherVolumeMode)
	add(ptr.Deref(v.Spec.VolumeAttributesClassName, "") != ptr.Deref(c.Spec.VolumeAttributesClassName, ""),
		otherAttributes)
	add(v.DeletionTimestamp != nil, terminating)
	if names(v, c) {
		return m
	}
	named, phase := v.Spec.ClaimRef != nil, v.Status.Phase
	add(named && phase != corev1.VolumeReleased, reservedByOther)
	add(named && phase == corev1.VolumeReleased, released)
	add(!named && phase != corev1.VolumeAvailable, unavailable)
	add(classOfVolume(v) != w.class, otherClass)
	add(!w.selector.Matches(labels.Set(v.Labels)), unselected)
	return m
}

// reasons says what keeps a volume from the claim, for people.
func (w *demand) reasons(v *corev1.PersistentVolume) (why []string) {
	m := w.misfits(v)
	add := func(one misfits, format string, values ...any) {
		if m.has(one) {
			why = append(why, fmt.Sprintf(format, values...))
		}
	}
	c, has := w.claim, capacity(v)
	add(tooSmall, "has %s of %s", has.String(), w.size.String())
	for _, mode := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			add(missingMode, "lacks the access mode %s", mode)
		}
	}
	add(otherVolumeMode, "has the volume mode %s", volumeMode(v.Spec.VolumeMode))
	add(otherAttributes, "has the volume attributes class %q and not %q",
		ptr.Deref(v.Spec.VolumeAttributesClassName, ""), ptr.Deref(c.Spec.VolumeAttributesClassName, ""))
	add(terminating, "is being deleted")
	if ref := v.Spec.ClaimRef; ref != nil {
		add(reservedByOther, "is for the claim %s/%s", ref.Namespace, ref.Name)
	}
	add(released, "is Released, and free again when its claimRef is removed")
	add(unavailable, "is %s", cmp.Or(v.Status.Phase, corev1.VolumePending))
	add(otherClass, "has the class %q and not %q", classOfVolume(v), w.class)
	add(unselected, "lacks labels that are selected")
	return why
}

// fits reports whether a claim of a class may be bound to a volume.
func fits(c *corev1.PersistentVolumeClaim, class string, v *corev1.PersistentVolume) bool {
	w := demand{claim: c, class: class, size: volumes.Requested(c), selector: labels.Everything()}
	if w.misfits(v) != 0 { // most often, and then the selector need not be read
		return false
	}
	if c.Spec.Selector == nil {
		return true
	}
	w = demandOf(c, class)
	return w.misfits(v) == 0
}

// volumeMode is the mode of a volume, or that which a claim asks for, with the default of the API server.
func volumeMode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(m, corev1.PersistentVolumeFilesystem)
}

// mismatch says why a claim cannot have the volume that it names; empty if it can (PV-21, PV-33, PV-60). The selector
// does not count.
func mismatch(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	class, _ := classOf(c)
	w := demandOf(c, class)
	switch m := w.misfits(v); {
	case m.has(terminating):
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case m.has(tooSmall):
		return "requested PV is too small"
	case m.has(otherClass):
		return "storageClassName does not match"
	case m.has(otherAttributes):
		return "volumeAttributesClassName does not match"
	case m.has(otherVolumeMode):
		return "incompatible volumeMode"
	case m.has(missingMode):
		return "incompatible accessMode"
	}
	return ""
}

// bestMatch returns the volume that a claim is bound to, of those that it may be bound to; nil if there is none. One
// that is reserved for it comes before all others (PV-30). Of these, those with the fewest access modes come first, and
// of these the smallest (PV-28, PV-31). Which of several equal ones it is differs from claim to claim, so that claims
// that are planned at the same time do not all want the same one.
func bestMatch(c *corev1.PersistentVolumeClaim, class string,
	volumes []*corev1.PersistentVolume) *corev1.PersistentVolume {
	w := demandOf(c, class)
	for _, v := range firstCandidates(1, w.candidates(volumes)) {
		return v
	}
	return nil
}

// candidate is a volume with what decides whether it comes before others.
type candidate struct {
	volume *corev1.PersistentVolume
	wrong  int // how much keeps it from the claim
	// reservation is how much the volume is the claim's own.
	reservation int
	// modes is how many access modes the volume has: the fewest do.
	modes int
	size  resource.Quantity
	// chance puts equal volumes into an order that differs from claim to claim.
	chance uint64
}

// candidates yields the volumes that fit.
func (w *demand) candidates(volumes []*corev1.PersistentVolume) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		for _, v := range volumes {
			if w.misfits(v) != 0 {
				continue
			}
			c := candidate{v, 0, reservation(v, w.claim), modesOf(v.Spec.AccessModes).count(), capacity(v),
				chance(w.claim.UID, v.UID)}
			if !yield(c) {
				return
			}
		}
	}
}

// compare puts the volume first that a claim is bound to.
func (a candidate) compare(b candidate) int {
	return cmp.Or(
		cmp.Compare(a.wrong, b.wrong),
		-cmp.Compare(a.reservation, b.reservation),
		cmp.Compare(a.modes, b.modes),
		a.size.Cmp(b.size),
		cmp.Compare(a.chance, b.chance),
		strings.Compare(a.volume.Name, b.volume.Name),
	)
}

// firstCandidates returns the volumes of the n candidates that come first, in their order.
func firstCandidates(n int, candidates iter.Seq[candidate]) (volumes []*corev1.PersistentVolume) {
	var top []candidate
	for c := range candidates {
		if at, _ := slices.BinarySearchFunc(top, c, candidate.compare); at < n {
			top = slices.Insert(top, at, c)
			top = top[:min(n, len(top))]
		}
	}
	for _, c := range top {
		volumes = append(volumes, c.volume)
	}
	return volumes
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

// modesOf returns the set of a list of access modes.
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

// count is how many modes are in the set.
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

// matchKey is what has to be equal of a claim and a volume: their class, and how the volume is to be.
func matchKey(class string, mode *corev1.PersistentVolumeMode, attributes *string) string {
	return class + "\n" + string(volumeMode(mode)) + "\n" + ptr.Deref(attributes, "")
}

// bucket is where volumes of one size and one set of access modes with one match key are found. Sizes are equal here
// that have the same number of bits.
func bucket(key string, m modes, size int) string { return fmt.Sprintf("%s\n%d\n%d", key, m, size) }

// sizeOf is in which class of sizes a quantity is: how many bits its number of bytes has.
func sizeOf(q resource.Quantity) int {
	if q.CmpInt64(math.MaxInt64) > 0 {
		return largest // more than q.Value can say
	}
	return bits.Len64(uint64(max(0, q.Value())))
}

// bucketsOf are the values of a volume in the index of free ones: its match key, and its bucket. A volume that is not
// free has none.
func bucketsOf(v *corev1.PersistentVolume) []string {
	if !free(v) {
		return nil
	}
	on := matchKey(classOfVolume(v), v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName)
	return []string{on, bucket(on, modesOf(v.Spec.AccessModes), sizeOf(capacity(v)))}
}

// largest is how many bits a size has at most.
const largest = 64

// maxCandidates is how many volumes that fit a claim are handed on to plan.
const maxCandidates = 4

// found returns the volumes of one place that fit a claim, on the first place that has some, beginning with the
// smallest set of access modes and the smallest sizes. by is the index of free volumes.
func found(c *corev1.PersistentVolumeClaim, class string,
	by func(string) []*corev1.PersistentVolume) []*corev1.PersistentVolume {
	on := matchKey(class, c.Spec.VolumeMode, c.Spec.VolumeAttributesClassName)
	if len(by(on)) == 0 {
		return nil
	}
	w := demandOf(c, class)
	for _, m := range modesOf(c.Spec.AccessModes).supersets() {
		for size := sizeOf(w.size); size <= largest; size++ {
			if fit := firstCandidates(maxCandidates, w.candidates(by(bucket(on, m, size)))); len(fit) > 0 {
				return fit
			}
		}
	}
	return nil
}

// nearest returns the volumes of which the least keeps them from a claim.
func nearest(c *corev1.PersistentVolumeClaim, class string,
	volumes []*corev1.PersistentVolume) []*corev1.PersistentVolume {
	const most = 3
	w := demandOf(c, class)
	return firstCandidates(most, func(yield func(candidate) bool) {
		for _, v := range volumes {
			if !yield(candidate{volume: v, wrong: w.misfits(v).count()}) {
				return
			}
		}
	})
}

// selectable reports whether the selector of a claim can be read.
func selectable(c *corev1.PersistentVolumeClaim) bool {
	_, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	return err == nil
}
