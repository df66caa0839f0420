package vacprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	classes informers.Store[*storagev1.VolumeAttributesClass]
	claims  informers.IndexedStore[*corev1.PersistentVolumeClaim] // by the classes that they refer to
	volumes informers.IndexedStore[*corev1.PersistentVolume]      // likewise
}

// observe finds a class, and of one that is being deleted also who refers to it, and whether the caches show a state
// that is later than the deletion (ST-94).
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	class := k.classes.Get("", r.Key.Name)
	if class == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.Class = true, class
	if class.DeletionTimestamp == nil {
		return o, nil
	}
	// The versions first: what is found after that is at least as new.
	o.Snapshot.Proved = k.claims.Reached(class.ResourceVersion) && k.volumes.Reached(class.ResourceVersion)
	o.Snapshot.Claims, o.Snapshot.Volumes = usersOf(k.claims.By(class.Name)), usersOf(k.volumes.By(class.Name))
	return o, nil
}

// usersOf counts objects that refer to a class, and names one of them, the first one by name.
func usersOf[T plan.Object](all []T) (u users) {
	for _, o := range all {
		if name := plan.KeyOf(o); u.Count == 0 || name.String() < u.First.String() {
			u.First = name
		}
		u.Count++
	}
	return u
}

// enqueuedByUser returns the classes that an object referred to before a change, and does not after it (ST-41): of
// these, the ones that are being deleted. If the cache of classes does not show yet that one is, it enqueues itself
// when it does.
func (k *caches) enqueuedByUser(before, after []string) (keys []plan.Key) {
	for _, name := range before {
		if slices.Contains(after, name) {
			continue
		}
		if class := k.classes.Get("", name); class != nil && class.DeletionTimestamp != nil {
			keys = append(keys, plan.KeyOf(class))
		}
	}
	return keys
}

// ofClaim and ofVolume return the classes that an object refers to, none if there is no object.
func ofClaim(o plan.Object) []string {
	if c, ok := o.(*corev1.PersistentVolumeClaim); ok {
		return classesOfClaim(c)
	}
	return nil
}

// ofVolume returns the classes that a volume refers to, none if there is no volume.
func ofVolume(o plan.Object) []string {
	if v, ok := o.(*corev1.PersistentVolume); ok {
		return classesOfVolume(v)
	}
	return nil
}
