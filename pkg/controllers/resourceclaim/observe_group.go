package resourceclaim

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// The feature gates without which pods of PodGroups get no claims, and PodGroups have none (RC-160).
const (
	groupGate  = "GenericWorkload"
	claimsGate = "DRAWorkloadResourceClaims"
)

// groupAPIs are what it takes for PodGroups to have claims.
func groupAPIs() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")}
}

// groupCaches are read only where PodGroups may have claims.
type groupCaches struct {
	byClaim    informers.IndexedStore[*schedulingv1beta1.PodGroup] // by the claims that were made for them
	byTemplate informers.IndexedStore[*schedulingv1beta1.PodGroup] // the same, by the templates that they name
	pods       informers.IndexedStore[*corev1.Pod]                 // with entries, by their PodGroups
}

// newGroupCaches asks for them, with these fields of pods.
func newGroupCaches(f *informers.Factory, fields informers.PodFields) (*groupCaches, error) {
	k := &groupCaches{}
	var errs [3]error
	k.byClaim, errs[0] = informers.IndexedObjects(f, "resource claim", func(g *schedulingv1beta1.PodGroup) []string {
		return keysIn(g.Namespace, userOfGroup(g).made())
	}, "spec.resourceClaims", "status.resourceClaimStatuses")
	k.byTemplate, errs[1] = informers.IndexedObjects(f, "resource claim template",
		func(g *schedulingv1beta1.PodGroup) []string { return keysIn(g.Namespace, userOfGroup(g).templates()) },
		informers.MetadataOnly)
	k.pods, errs[2] = informers.IndexedPods(f, "group with resource claims", func(p *corev1.Pod) []string {
		if name := groupName(p); name != "" && len(p.Spec.ResourceClaims) > 0 {
			return keysIn(p.Namespace, []string{name})
		}
		return nil
	}, fields)
	return k, errors.Join(errs[:]...)
}

// groupName is the name of the PodGroup of a pod; empty if it has none.
func groupName(p *corev1.Pod) string {
	if of := p.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return *of.PodGroupName
	}
	return ""
}

// podGroupOf returns the PodGroup of a pod, nil if it has none. unseen says that the cache lacks it. Without the
// feature gate no pod has one.
func (k *caches) podGroupOf(p *corev1.Pod) (group *schedulingv1beta1.PodGroup, unseen bool) {
	if k.groups == nil || groupName(p) == "" {
		return nil, false
	}
	group = k.groups.byClaim.Get(p.Namespace, groupName(p))
	return group, group == nil
}

// observeGroup finds a PodGroup, and the claims and templates of its entries.
func (k *caches) observeGroup(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	g := k.groups.byClaim.Get(r.Key.Namespace, r.Key.Name)
	if g == nil {
		return o, nil
	}
	o = observation{Exists: true, Memory: r.Memory, Snapshot: snapshot{PodGroup: g}}
	if r.Memory != nil {
		o.Snapshot.Missing = r.Memory.Missing
	}
	if g.DeletionTimestamp == nil {
		o.Snapshot.Entries = k.entriesOf(userOfGroup(g), nil)
	}
	return o, nil
}

// groupWith returns the PodGroup that a claim belongs to, if its status records it; else the claim is nothing to its
// pods yet.
func (k *caches) groupWith(c *resourcev1.ResourceClaim) *schedulingv1beta1.PodGroup {
	ref := groupOf(c)
	if ref == nil || k.groups == nil {
		return nil
	}
	g := k.groups.byClaim.Get(c.Namespace, ref.Name)
	if g == nil || g.UID != ref.UID || !slices.Contains(userOfGroup(g).made(), c.Name) {
		return nil
	}
	return g
}

// groupLacks reports whether a PodGroup may lack a claim.
func (k *caches) groupLacks(g *schedulingv1beta1.PodGroup) bool {
	return g.DeletionTimestamp == nil && k.misses(userOfGroup(g), nil)
}

// groupsByGroup returns a PodGroup that may lack a claim, if it is new or its records have changed, and one that is
// gone, so that nothing of it is remembered.
func (k *caches) groupsByGroup(before, after plan.Object) []plan.Key {
	was, _ := before.(*schedulingv1beta1.PodGroup)
	is, _ := after.(*schedulingv1beta1.PodGroup)
	switch {
	case is == nil:
		if was == nil || len(was.Spec.ResourceClaims) == 0 {
			return nil
		}
	case sameRecords(was, is), !k.groupLacks(is):
		return nil
	}
	return informers.Itself(before, after)
}

// sameRecords reports whether neither the entries nor the records of a PodGroup have changed.
func sameRecords(was, is *schedulingv1beta1.PodGroup) bool {
	return was != nil && is != nil && was.UID == is.UID &&
		equality.Semantic.DeepEqual(was.Spec.ResourceClaims, is.Spec.ResourceClaims) &&
		equality.Semantic.DeepEqual(was.Status.ResourceClaimStatuses, is.Status.ResourceClaimStatuses)
}

// groupsByClaim returns the PodGroups that may lack a claim because one has come, gone or has another owner.
func (k *caches) groupsByClaim(before, after plan.Object) (keys []plan.Key) {
	for _, c := range changedOwner(before, after) {
		groups := k.groups.byClaim.By(c.Namespace + "/" + c.Name)
		if ref := groupOf(c); ref != nil {
			if g := k.groups.byClaim.Get(c.Namespace, ref.Name); g != nil && g.UID == ref.UID {
				groups = append(groups, g)
			}
		}
		keys = append(keys, lacking(groups, k.groupLacks)...)
	}
	return distinctKeys(keys)
}

// groupsByTemplate returns the PodGroups that may lack a claim of a template that is new or has changed (RC-113).
func (k *caches) groupsByTemplate(_, after plan.Object) []plan.Key {
	if after == nil {
		return nil
	}
	return lacking(k.groups.byTemplate.By(after.GetNamespace()+"/"+after.GetName()), k.groupLacks)
}

// podsByGroup returns the pods of a PodGroup that may lack a claim, if it has come or its records have changed.
func (k *caches) podsByGroup(before, after plan.Object) []plan.Key {
	was, _ := before.(*schedulingv1beta1.PodGroup)
	is, _ := after.(*schedulingv1beta1.PodGroup)
	if is == nil || sameRecords(was, is) {
		return nil
	}
	return lacking(k.groups.pods.By(is.Namespace+"/"+is.Name), k.lacks)
}

// claimsByGroup returns the claims that a PodGroup has reserved that is gone, and those that pods on nodes use of one
// that has come.
func (k *caches) claimsByGroup(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*schedulingv1beta1.PodGroup)
	is, _ := after.(*schedulingv1beta1.PodGroup)
	if was != nil && (is == nil || is.UID != was.UID) {
		u := userOfGroup(was)
		for _, name := range append(u.named(), u.made()...) {
			if c := k.claims.Get(was.Namespace, name); c != nil && reservations(c)[was.UID] {
				keys = append(keys, plan.KeyOf(c))
			}
		}
		for _, c := range k.claims.OwnedBy(was.Namespace, was.UID) {
			keys = append(keys, plan.KeyOf(c))
		}
		was = nil
	}
	if is != nil && was == nil {
		for _, p := range k.groups.pods.By(is.Namespace + "/" + is.Name) {
			keys = append(keys, k.unreservedBy(p)...)
		}
	}
	return distinctKeys(keys)
}

// changedOwner returns a claim as it was and as it is, if it has come, gone or has another owner.
func changedOwner(before, after plan.Object) (claims []*resourcev1.ResourceClaim) {
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if was != nil && is != nil && sameOwner(was, is) {
		return nil
	}
	for _, c := range []*resourcev1.ResourceClaim{was, is} {
		if c != nil {
			claims = append(claims, c)
		}
	}
	return claims
}
