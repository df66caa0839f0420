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
	s := claimed{Claim: c, Over: map[types.UID]bool{}, Unread: map[types.UID]plan.Ref{}}
	note := func(ref plan.Ref, uid types.UID, seen, over bool) {
		switch {
		case gone[uid], over, !mayExist(ref.Name):
			s.Over[uid] = true
		case !seen:
			s.Unread[uid] = ref
		}
	}
	look := func(name string, uid types.UID) {
		p := k.pods.Get(c.Namespace, name)
		seen := p != nil && p.UID == uid
		note(podRef(plan.Key{Namespace: c.Namespace, Name: name}), uid, seen, seen && ended(p))
	}
	for _, r := range c.Status.ReservedFor {
		switch {
		case isPod(r):
			look(r.Name, r.UID)
		case isGroup(r) && k.groups != nil && k.groups.byClaim.Missing():
			s.Unseen = true // the API may come back without the PodGroup, which is no event
		case isGroup(r) && k.groups != nil: // RC-161
			g := k.groups.byClaim.Get(c.Namespace, r.Name)
			note(groupRef(plan.Key{Namespace: c.Namespace, Name: r.Name}), r.UID, g != nil && g.UID == r.UID, false)
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

// waiting returns who uses an allocated claim by an entry of a pod on a node and has not reserved it, by name: the pods
// that name it, and those that it was made for, or their PodGroup (RC-161).
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
	if owner := groupOf(c); owner != nil && k.groups != nil && !has[owner.UID] {
		users = append(users, k.pods.By(madeFor+c.Namespace+"/"+c.Name)...)
	}
	for _, p := range users {
		if r, ok := k.consumer(p, c); ok && !has[r.UID] {
			has[r.UID] = true
			all = append(all, r)
		}
	}
	slices.SortFunc(all,
		func(a, b resourcev1.ResourceClaimConsumerReference) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// consumer is who reserves a claim that a pod on a node uses: the pod, or its PodGroup if that has the same entry. ok
// is false if nobody does, or if it is not known yet.
func (k *caches) consumer(p *corev1.Pod, c *resourcev1.ResourceClaim) (
	r resourcev1.ResourceClaimConsumerReference, ok bool) {
	if !mayReserve(p) {
		return r, false
	}
	group, unseen := k.podGroupOf(p)
	if unseen {
		return r, false
	}
	u, owner := userOfPod(p), groupOf(c)
	names := func(e corev1.PodResourceClaim) bool {
		return e.ResourceClaimName != nil && *e.ResourceClaimName == c.Name
	}
	if group != nil {
		ofGroup := userOfGroup(group)
		// what was made for an earlier group of the name, or for the pod itself, is not the group's
		its := owner != nil && owner.UID == group.UID
		if slices.ContainsFunc(u.entries, func(e corev1.PodResourceClaim) bool {
			return (names(e) || its && e.ResourceClaimName == nil && u.records[e.Name] == c.Name) && ofGroup.has(e)
		}) {
			return ofGroup.consumer(), true
		}
	}
	return u.consumer(), owner == nil || slices.ContainsFunc(u.entries, names)
}

// mayReserve reports whether a pod is on a node and has not ended.
func mayReserve(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !ended(p)
}

// reservations returns who has reserved a claim.
func reservations(c *resourcev1.ResourceClaim) map[types.UID]bool {
	has := map[types.UID]bool{}
	for _, r := range c.Status.ReservedFor {
		if known(r) {
			has[r.UID] = true
		}
	}
	return has
}

// proveClaim notes who exists that the cache lacks (RC-130).
func (k *caches) proveClaim(o claimObservation, proof reconcile.Proof) claimObservation {
	s := &o.Snapshot
	s.Over, s.Unread = maps.Clone(s.Over), maps.Clone(s.Unread)
	for uid, ref := range s.Unread {
		found, ok, _ := reconcile.Found[*metav1.PartialObjectMetadata](proof, ref)
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
	return sameOwner(was, is) && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		(was.Status.Allocation == nil) == (is.Status.Allocation == nil) &&
		slices.Equal(was.Status.ReservedFor, is.Status.ReservedFor) &&
		slices.Equal(was.Finalizers, is.Finalizers) && was.Annotations[entry] == is.Annotations[entry]
}

// sameOwner reports whether a claim is the same, and belongs to the same as before.
func sameOwner(was, is *resourcev1.ResourceClaim) bool {
	return was.UID == is.UID &&
		equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(was), metav1.GetControllerOfNoCopy(is))
}

// due returns the key of a claim if something may be to release or to reserve.
func (k *caches) due(c *resourcev1.ResourceClaim) []plan.Key {
	s := k.look(c, nil)
	idle := c.DeletionTimestamp != nil && len(c.Status.ReservedFor) == 0
	if len(s.Over)+len(s.Unread)+len(s.Waiting) == 0 && !idle && !s.Unseen {
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
	return append(keys, k.unreservedBy(is)...)
}

// unreservedBy returns the claims with devices that a pod on a node uses, and that are not reserved for it or its
// PodGroup.
func (k *caches) unreservedBy(p *corev1.Pod) (keys []plan.Key) {
	if !mayReserve(p) {
		return nil
	}
	for _, name := range append(podutil.NamedDeviceClaims(p), podutil.MadeDeviceClaims(p)...) {
		c := k.claims.Get(p.Namespace, name)
		if c == nil || c.Status.Allocation == nil {
			continue
		}
		if r, ok := k.consumer(p, c); ok && !reservations(c)[r.UID] {
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
