package resourceclaim

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// mostAttempts is how many names are tried for a claim, if others have them.
const mostAttempts = 10

// caches are what the controller reads.
type caches struct {
	pods       informers.IndexedStore[*corev1.Pod] // by the claims that they use
	byTemplate informers.IndexedStore[*corev1.Pod] // the same pods, by the templates that they name
	claims     informers.OwnedStore[*resourcev1.ResourceClaim]
	templates  informers.Store[*resourcev1.ResourceClaimTemplate]
	workloads  bool         // pods of PodGroups have claims
	groups     *groupCaches // nil where PodGroups have none of their own
}

// keysIn returns names in a namespace as an index has them.
func keysIn(namespace string, names []string) []string {
	for i, name := range names {
		names[i] = namespace + "/" + name
	}
	return names
}

// madeFor stands before the names of claims in the index of pods that were made for them.
const madeFor = "made for: "

// claimsUsed is the index of pods by the claims that their entries name, and by those that were made for them.
func claimsUsed(p *corev1.Pod) []string {
	return append(keysIn(p.Namespace, podutil.NamedDeviceClaims(p)),
		keysIn(madeFor+p.Namespace, podutil.MadeDeviceClaims(p))...)
}

// templatesUsed is the index of pods by templates.
func templatesUsed(p *corev1.Pod) []string { return keysIn(p.Namespace, userOfPod(p).templates()) }

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds a pod, and the claims and templates of its entries.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists, o.Memory = true, r.Memory
	o.Snapshot = snapshot{Pod: pod, Workloads: k.workloads}
	if r.Memory != nil {
		o.Snapshot.Missing = r.Memory.Missing
	}
	if pod.DeletionTimestamp == nil && !podutil.Finished(pod) {
		group, unseen := k.podGroupOf(pod)
		o.Snapshot.GroupUnseen = unseen
		o.Snapshot.Entries = k.entriesOf(userOfPod(pod), group)
	}
	return o, nil
}

// entriesOf returns the entries of a pod or a PodGroup that name a template, but for those that need no claim. A pod
// may have a PodGroup.
func (k *caches) entriesOf(u user, group *schedulingv1beta1.PodGroup) (entries []entry) {
	if len(u.entries) == 0 {
		return nil
	}
	own := byEntry(k.claims.OwnedBy(u.GetNamespace(), u.GetUID()))
	var ofGroup user
	if group != nil {
		ofGroup = userOfGroup(group)
	}
	for _, c := range u.entries {
		name, needed := u.records.Wanted(c)
		if !needed {
			continue
		}
		e := entry{Name: c.Name, TemplateName: *c.ResourceClaimTemplateName, Recorded: name}
		switch {
		case k.settled(u, name):
			e.Claim = k.claims.Get(u.GetNamespace(), name)
		case ofGroup.has(c):
			recorded, given := ofGroup.records.Wanted(c)
			if !given {
				continue
			}
			if e.OfGroup = true; k.settled(ofGroup, recorded) {
				e.Claim = k.claims.Get(u.GetNamespace(), recorded)
			}
		case own[c.Name] != nil:
			e.Claim = own[c.Name]
		default:
			e.Unread = name != "" && k.claims.Get(u.GetNamespace(), name) == nil && mayExist(name)
			e.Template = k.templates.Get(u.GetNamespace(), e.TemplateName)
			e.Free = k.freeName(u, c.Name)
		}
		entries = append(entries, e)
	}
	return entries
}

// settled reports whether the claim that is recorded for an entry is there, and is the user's own. It is that of its
// PodGroup, too, where PodGroups are not read any more: a pod that runs keeps its devices.
func (k *caches) settled(u user, recorded string) bool {
	c := k.claims.Get(u.GetNamespace(), recorded)
	return c != nil && (owned(c, u.GetUID()) || k.groups == nil && groupOf(c) != nil)
}

// byEntry returns the claims of a user by the entries that they were made for: of several one that is not being deleted
// if there is one, and the first by name.
func byEntry(own []*resourcev1.ResourceClaim) map[string]*resourcev1.ResourceClaim {
	slices.SortFunc(own, func(a, b *resourcev1.ResourceClaim) int { return cmp.Compare(a.Name, b.Name) })
	found := map[string]*resourcev1.ResourceClaim{}
	for _, c := range own {
		entry, ok := c.Annotations[resourcev1.PodResourceClaimAnnotation]
		if was := found[entry]; ok && (was == nil || was.DeletionTimestamp != nil && c.DeletionTimestamp == nil) {
			found[entry] = c
		}
	}
	return found
}

// freeName returns the name of the claim that is to be made for an entry: one that no claim has that the cache shows.
func (k *caches) freeName(u user, entry string) string {
	for attempt := range mostAttempts {
		if name := claimName(u, entry, attempt); k.claims.Get(u.GetNamespace(), name) == nil {
			return name
		}
	}
	return claimName(u, entry, mostAttempts)
}

// prove notes which of the recorded claims exist that the cache lacks (RC-121).
func (k *caches) prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	s.Entries = slices.Clone(s.Entries)
	u := s.owner()
	for i := range s.Entries {
		e := &s.Entries[i]
		if !e.Unread {
			continue
		}
		found, ok, _ := reconcile.Found[*metav1.PartialObjectMetadata](proof, claimRef(u.GetNamespace(), e.Recorded))
		if !ok {
			continue
		}
		e.Unread = false
		e.Hidden = found != nil && (metav1.IsControlledBy(found, u) || k.groups == nil && groupOf(found) != nil)
	}
	return o
}

// live names the claims that a previous leader may have created: all of the namespace, if one is missing. One list
// serves many users, as their names distinguish what this process has created.
func live(s snapshot) (sets []reconcile.Live) {
	for _, e := range s.Entries {
		if e.Claim == nil && !e.OfGroup {
			sets = append(sets, reconcile.Live{
				Kind: client.KindFor[*resourcev1.ResourceClaim](), Namespace: s.owner().GetNamespace(), Name: e.Free,
				Selector: labels.Everything(),
			})
		}
	}
	if sets != nil {
		sets = append(sets, reconcile.Live{Kind: client.KindFor[*resourcev1.ResourceClaim](),
			Namespace: s.owner().GetNamespace(), Selector: labels.Everything(), Shared: true})
	}
	return sets
}

// lacks reports whether a pod may lack a claim: none is recorded, or it is not in the cache, or belongs to others
// (RC-111).
func (k *caches) lacks(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || podutil.Finished(p) {
		return false
	}
	if len(p.Spec.ResourceClaims) == 0 {
		return false
	}
	group, unseen := k.podGroupOf(p)
	return unseen || k.misses(userOfPod(p), group)
}

// misses reports the same of the entries of a pod or a PodGroup. A pod may have a PodGroup.
func (k *caches) misses(u user, group *schedulingv1beta1.PodGroup) bool {
	var ofGroup user
	if group != nil {
		ofGroup = userOfGroup(group)
	}
	return slices.ContainsFunc(u.entries, func(e corev1.PodResourceClaim) bool {
		name, needed := u.records.Wanted(e)
		switch {
		case !needed, k.settled(u, name):
			return false
		case ofGroup.has(e):
			recorded, given := ofGroup.records.Wanted(e)
			return given && (name != recorded || !k.settled(ofGroup, recorded))
		}
		return true
	})
}

// enqueuedByPod returns a pod that may lack a claim, if it is new or its records have changed, and one that is gone, so
// that nothing of it is remembered.
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	switch {
	case is == nil:
		if was == nil || len(userOfPod(was).templates()) == 0 {
			return nil
		}
	case !k.lacks(is),
		was != nil && was.UID == is.UID &&
			equality.Semantic.DeepEqual(was.Status.ResourceClaimStatuses, is.Status.ResourceClaimStatuses):
		return nil
	}
	return informers.Itself(before, after)
}

// enqueuedByClaim returns the pods that may lack a claim because one has come, gone or has another owner: those that
// record it, and whose it is or was.
func (k *caches) enqueuedByClaim(before, after plan.Object) (keys []plan.Key) {
	for _, c := range changedOwner(before, after) {
		users := k.pods.By(madeFor + c.Namespace + "/" + c.Name)
		if ref := podOf(c); ref != nil {
			if p := k.pods.Get(c.Namespace, ref.Name); p != nil && p.UID == ref.UID {
				users = append(users, p)
			}
		}
		if g := k.groupWith(c); g != nil {
			users = append(users, k.groups.pods.By(g.Namespace+"/"+g.Name)...)
		}
		keys = append(keys, lacking(users, k.lacks)...)
	}
	return distinctKeys(keys)
}

// enqueuedByTemplate returns the pods that may lack a claim of a template that is new or has changed (RC-113).
func (k *caches) enqueuedByTemplate(_, after plan.Object) []plan.Key {
	if after == nil {
		return nil
	}
	return lacking(k.byTemplate.By(after.GetNamespace()+"/"+after.GetName()), k.lacks)
}

// lacking returns the keys of the pods or PodGroups that may lack a claim.
func lacking[T plan.Object](users []T, lacks func(T) bool) (keys []plan.Key) {
	for _, u := range users {
		if lacks(u) {
			keys = append(keys, plan.KeyOf(u))
		}
	}
	return keys
}

// distinctKeys returns each key once, by name.
func distinctKeys(keys []plan.Key) []plan.Key {
	slices.SortFunc(keys, func(a, b plan.Key) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(keys)
}
