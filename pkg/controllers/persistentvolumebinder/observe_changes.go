package persistentvolumebinder

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/selectors"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// claimsByVolume returns the claims that a change of a volume concerns: those that it names or named, those that name
// it, those that have just lost it to another one and, if it has become free, those that it fits.
func (k *caches) claimsByVolume(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.PersistentVolume)
	is, _ := after.(*corev1.PersistentVolume)
	seen := map[plan.Key]bool{}
	for _, v := range []*corev1.PersistentVolume{is, was} {
		if v == nil {
			continue
		}
		if ref := v.Spec.ClaimRef; ref != nil {
			seen[plan.Key{Namespace: ref.Namespace, Name: ref.Name}] = true
		}
		for _, c := range k.claims.byVolume.By(v.Name) {
			seen[plan.KeyOf(c)] = true
		}
	}
	if is != nil && free(is) && (was == nil || !free(was) || !sameOffer(was, is)) {
		for _, c := range k.fitted(is) {
			seen[plan.KeyOf(c)] = true
		}
	}
	t, _ := k.claimTerm.Get()
	if lost, ok := t.RaceLosers.Get(cmp.Or(is, was).UID); ok {
		for _, key := range lost.keys {
			seen[key] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// sameOffer reports whether a volume fits the same claims as before.
func sameOffer(a, b *corev1.PersistentVolume) bool {
	return maps.Equal(a.Labels, b.Labels) && a.UID == b.UID && slices.Equal(bucketsOf(a), bucketsOf(b)) &&
		equality.Semantic.DeepEqual(a.Spec.Capacity, b.Spec.Capacity)
}

// fitted returns the claims that wait and that a free volume fits; none if they are so many that they are looked
// through later, see offers.
func (k *caches) fitted(v *corev1.PersistentVolume) (all []*corev1.PersistentVolumeClaim) {
	on := matchKeyOf(v)
	if t, _ := k.claimTerm.Get(); t.Offers.keys[on] || k.scheduled(v) {
		return nil
	}
	waiting := k.claims.waiting.By(on)
	if len(waiting) > manyWaiting {
		return nil
	}
	class := classOfVolume(v)
	for _, c := range waiting {
		if rejected := c.Spec.Selector != nil && selectors.Rejects(c.Spec.Selector, v.Labels); !rejected &&
			fits(c, class, v) {
			all = append(all, c)
		}
	}
	return all
}

// matchKeyOf returns what has to be equal of a volume and the claims that it fits.
func matchKeyOf(v *corev1.PersistentVolume) string {
	return matchKey(classOfVolume(v), v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName)
}

// scheduled reports whether the scheduler chooses the claims of a volume.
func (k *caches) scheduled(v *corev1.PersistentVolume) bool {
	class := classOfVolume(v)
	return class != "" && delayed(k.classes.Get("", class))
}

// claimsByClass returns the claims that wait and that a change of a class concerns: those of the class, and if it is
// or was a default class, those without one.
func (k *caches) claimsByClass(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*storagev1.StorageClass)
	is, _ := after.(*storagev1.StorageClass)
	var values []string
	for _, class := range []*storagev1.StorageClass{is, was} {
		if class == nil {
			continue
		}
		if values = append(values, class.Name); isDefault(class) {
			values = append(values, noClass)
		}
	}
	slices.Sort(values)
	for _, value := range slices.Compact(values) {
		for _, c := range k.claims.classed.By(value) {
			keys = append(keys, plan.KeyOf(c))
		}
	}
	return keys
}

// claimsByPod returns the claims of a pod that wait for their first consumer.
func (k *caches) claimsByPod(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && unplaced(was) == unplaced(is) || is == nil && !unplaced(was) ||
		was == nil && !unplaced(is) {
		return nil
	}
	p := is
	if p == nil {
		p = was
	}
	for _, name := range podutil.Claims(p) {
		if c := k.claims.Get(p.Namespace, name); c != nil && waits(c) && !labels.Set(c.Annotations).Has(selectedNode) {
			keys = append(keys, plan.KeyOf(c))
		}
	}
	return keys
}

// unplaced reports whether a pod is to be scheduled.
func unplaced(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !podutil.Finished(p)
}

// volumesByClaim returns the volumes that name a claim and the one that it names, if what the change says concerns
// them: that it has gone, or is another one, or is bound elsewhere.
func (k *caches) volumesByClaim(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.PersistentVolumeClaim)
	is, _ := after.(*corev1.PersistentVolumeClaim)
	if was != nil && is != nil && was.UID == is.UID && was.Spec.VolumeName == is.Spec.VolumeName &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) {
		return nil
	}
	seen := map[plan.Key]bool{}
	for _, c := range []*corev1.PersistentVolumeClaim{is, was} {
		if c == nil {
			continue
		}
		for _, v := range k.volumes.claimed.By(c.Namespace + "/" + c.Name) {
			seen[plan.Key{Name: v.Name}] = true
		}
		if c.Spec.VolumeName != "" { // which may wait for it, and name it no longer
			seen[plan.Key{Name: c.Spec.VolumeName}] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}
