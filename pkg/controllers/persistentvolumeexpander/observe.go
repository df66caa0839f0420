package persistentvolumeexpander

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	claims  informers.Store[*corev1.PersistentVolumeClaim]
	volumes informers.Store[*corev1.PersistentVolume]
}

// observe finds a claim and its volume. What the claim asks for is remembered as long as it waits for it.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	claim := k.claims.Get(r.Key.Namespace, r.Key.Name)
	if claim == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.Claim = true, claim
	if !growing(claim) {
		return o, nil
	}
	if v := k.volumes.Get("", claim.Spec.VolumeName); v != nil && holds(v, claim) {
		o.Snapshot.Volume = v
		o.Memory = &memory{UID: claim.UID, Request: volumes.Requested(claim)}
	}
	if m := r.Memory; m != nil && m.UID == claim.UID {
		o.Snapshot.Seen = &m.Request
	}
	return o, nil
}

// enqueuedByClaim returns a claim that asks for more than it has, or has done so (ST-1), and one that is gone, so
// that nothing of it is remembered.
func enqueuedByClaim(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.PersistentVolumeClaim)
	is, _ := after.(*corev1.PersistentVolumeClaim)
	if was != nil && growing(was) || is != nil && growing(is) {
		return informers.Itself(before, after)
	}
	return nil
}

// enqueuedByVolume returns the claim of a volume that comes, or comes to belong to it, after the claim has asked for
// more (ST-82).
func (k *caches) enqueuedByVolume(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.PersistentVolume)
	is, _ := after.(*corev1.PersistentVolume)
	if is == nil || is.Spec.ClaimRef == nil {
		return nil
	}
	claim := k.claims.Get(is.Spec.ClaimRef.Namespace, is.Spec.ClaimRef.Name)
	if claim == nil || !growing(claim) || !holds(is, claim) || was != nil && holds(was, claim) {
		return nil
	}
	return []plan.Key{plan.KeyOf(claim)}
}
