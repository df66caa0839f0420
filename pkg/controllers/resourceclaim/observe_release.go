package resourceclaim

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// claimObservation is what observeClaim returns.
type claimObservation = reconcile.Observation[claimed, struct{}]

// observeClaim finds a claim, and what the cache and the changes of pods say of those that have reserved it.
func (k *caches) observeClaim(_ context.Context, r reconcile.Request[struct{}]) (o claimObservation, err error) {
	c := k.claims.Get(r.Key.Namespace, r.Key.Name)
	if c == nil {
		return o, nil
	}
	gone := map[types.UID]bool{}
	for _, change := range r.Changes {
		if was := change.Before; was != nil && (change.After == nil || change.After.GetUID() != was.GetUID()) {
			gone[was.GetUID()] = true
		}
	}
	o.Exists, o.Snapshot = true, k.look(c, gone)
	return o, nil
}

// look finds what there is of the pods that have reserved a claim, own it, or wait for it. Those of which the deletion
// was seen are gone.
func (k *caches) look(c *resourcev1.ResourceClaim, gone map[types.UID]bool) claimed {
	s := claimed{Claim: c, Over: map[types.UID]bool{}, Unread: map[types.UID]plan.Key{}}
	look := func(name string, uid types.UID) {
		switch p := k.pods.Get(c.Namespace, name); {
		case gone[uid], p != nil && p.UID == uid && ended(p), p == nil && !mayExist(name):
			s.Over[uid] = true
		case p == nil, p.UID != uid:
			s.Unread[uid] = plan.Key{Namespace: c.Namespace, Name: name}
		}
	}
	for _, r := range c.Status.ReservedFor {
		if isPod(r) {
			look(r.Name, r.UID)
		}
	}
	if owner := podOf(c); owner != nil {
		if s.OwnerGone = k.pods.Get(c.Namespace, owner.Name) == nil; !s.OwnerGone {
			look(owner.Name, owner.UID)
		}
	}
	s.Waiting = k.waiting(c)
	return s
}

// mayExist reports whether an object may have the name. Of others nothing can be read.
func mayExist(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// waiting returns the pods on nodes that use an allocated claim by an entry and have not reserved it, by name: those
// that name it, and the one that it was made for.
func (k *caches) waiting(c *resourcev1.ResourceClaim) (all []resourcev1.ResourceClaimConsumerReference) {
	if c.Status.Allocation == nil {
		return nil
	}
	users := k.pods.By(c.Namespace + "/" + c.Name)
	if owner := podOf(c); owner != nil {
		p := k.pods.Get(c.Namespace, owner.Name)
		if p != nil && p.UID == owner.UID &&
			podutil.DeviceRecordsOf(p)[c.Annotations[resourcev1.PodResourceClaimAnnotation]] == c.Name {
			users = append(users, p)
		}
	}
	has := reservations(c)
	for _, p := range users {
		if mayReserve(p) && !has[p.UID] {
			has[p.UID] = true
			all = append(all, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
	}
	slices.SortFunc(all,
		func(a, b resourcev1.ResourceClaimConsumerReference) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// mayReserve reports whether a pod is on a node and has not ended.
func mayReserve(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !ended(p)
}

// reservations returns the pods that have reserved a claim.
func reservations(c *resourcev1.ResourceClaim) map[types.UID]bool {
	has := map[types.UID]bool{}
	for _, r := range c.Status.ReservedFor {
		if isPod(r) {
			has[r.UID] = true
		}
	}
	return has
}

// proveClaim notes which pods exist that the cache lacks (RC-130).
func (k *caches) proveClaim(o claimObservation, proof reconcile.Proof) claimObservation {
	s := &o.Snapshot
	s.Over, s.Unread = maps.Clone(s.Over), maps.Clone(s.Unread)
	for uid, key := range s.Unread {
		found, ok, _ := reconcile.Found[*metav1.PartialObjectMetadata](proof, podRef(key))
		if !ok {
			continue
		}
		delete(s.Unread, uid)
		s.Over[uid] = found == nil || found.UID != uid
		s.Unseen = s.Unseen || !s.Over[uid]
	}
	return o
}

// claimsByClaim returns a claim of which something may be to release, and one that is gone, so that nothing of it is
// remembered.
func (k *caches) claimsByClaim(before, after plan.Object) []plan.Key {
	c, _ := after.(*resourcev1.ResourceClaim)
	if c == nil {
		return []plan.Key{plan.KeyOf(before)}
	}
	was, _ := before.(*resourcev1.ResourceClaim)
	if was != nil && was.ResourceVersion != c.ResourceVersion && sameUse(was, c) {
		return nil
	}
	return k.due(c)
}

// sameUse reports whether a change of a claim concerns neither who uses it nor its devices. To find out what is due
// costs as much as the claim has users, and its drivers and owners may change it often.
func sameUse(was, is *resourcev1.ResourceClaim) bool {
	const entry = resourcev1.PodResourceClaimAnnotation
	return was.UID == is.UID && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		(was.Status.Allocation == nil) == (is.Status.Allocation == nil) &&
		slices.Equal(was.Status.ReservedFor, is.Status.ReservedFor) &&
		slices.Equal(was.Finalizers, is.Finalizers) && was.Annotations[entry] == is.Annotations[entry] &&
		equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(was), metav1.GetControllerOfNoCopy(is))
}

// due returns the key of a claim if something may be to release or to reserve.
func (k *caches) due(c *resourcev1.ResourceClaim) []plan.Key {
	s := k.look(c, nil)
	idle := c.DeletionTimestamp != nil && len(c.Status.ReservedFor) == 0
	if len(s.Over)+len(s.Unread)+len(s.Waiting) == 0 && !idle {
		return nil
	}
	return []plan.Key{plan.KeyOf(c)}
}

// claimsByPod returns the claims of a pod that has ended or is gone, and of one that has come to a node, if something
// may be to do for them.
func (k *caches) claimsByPod(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && (is == nil || is.UID != was.UID) {
		keys = k.reservedBy(was)
		was = nil
	}
	if is == nil || was != nil && ended(was) == ended(is) && was.Spec.NodeName == is.Spec.NodeName &&
		equality.Semantic.DeepEqual(was.Status.ResourceClaimStatuses, is.Status.ResourceClaimStatuses) {
		return keys
	}
	if ended(is) {
		return append(keys, k.reservedBy(is)...)
	}
	if !mayReserve(is) {
		return keys
	}
	for _, name := range append(podutil.NamedDeviceClaims(is), podutil.MadeDeviceClaims(is)...) {
		if c := k.claims.Get(is.Namespace, name); c != nil && c.Status.Allocation != nil && !reservations(c)[is.UID] {
			keys = append(keys, plan.KeyOf(c))
		}
	}
	return keys
}

// reservedBy returns the claims that a pod has reserved or owns.
func (k *caches) reservedBy(p *corev1.Pod) (keys []plan.Key) {
	if len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil { // RC-110
		return nil
	}
	for _, name := range podutil.DeviceClaims(p) {
		if c := k.claims.Get(p.Namespace, name); c != nil && (reservations(c)[p.UID] || owned(c, p.UID)) {
			keys = append(keys, plan.KeyOf(c))
		}
	}
	for _, c := range k.claims.OwnedBy(p.Namespace, p.UID) {
		keys = append(keys, plan.KeyOf(c))
	}
	return distinctKeys(keys)
}
