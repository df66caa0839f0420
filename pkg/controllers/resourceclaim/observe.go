package resourceclaim

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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
	workloads  bool // pods of PodGroups have claims of their own
}

// keysIn returns names in a namespace as an index has them.
func keysIn(namespace string, names []string) []string {
	for i, name := range names {
		names[i] = namespace + "/" + name
	}
	return names
}

// made stands before the names of claims in the index of pods that were made for them.
const made = "made for: "

// claimsUsed is the index of pods by the claims that their entries name, and by those that were made for them.
func claimsUsed(p *corev1.Pod) []string {
	return append(keysIn(p.Namespace, podutil.NamedDeviceClaims(p)),
		keysIn(made+p.Namespace, podutil.MadeDeviceClaims(p))...)
}

// templatesUsed is the index of pods by templates.
func templatesUsed(p *corev1.Pod) []string { return keysIn(p.Namespace, templatesOf(p)) }

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
		o.Snapshot.Entries = k.entriesOf(pod)
	}
	return o, nil
}

// entriesOf returns the entries of a pod that name a template, but for those that need no claim.
func (k *caches) entriesOf(pod *corev1.Pod) (entries []entry) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	r, own := podutil.DeviceRecordsOf(pod), byEntry(k.claims.OwnedBy(pod.Namespace, pod.UID))
	for _, c := range pod.Spec.ResourceClaims {
		name, ok := r.Wanted(c)
		if !ok {
			continue
		}
		e := entry{Name: c.Name, TemplateName: *c.ResourceClaimTemplateName, Recorded: name}
		cached := k.claims.Get(pod.Namespace, name)
		if e.Claim = cached; cached == nil || !owned(cached, pod.UID) {
			e.Claim = own[c.Name]
		}
		if e.Claim == nil {
			e.Unread = name != "" && cached == nil && mayExist(name)
			e.Template = k.templates.Get(pod.Namespace, e.TemplateName)
			e.Free = k.freeName(pod, c.Name)
		}
		entries = append(entries, e)
	}
	return entries
}

// byEntry returns the claims of a pod by the entries that they were made for: of several one that is not being deleted
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
func (k *caches) freeName(pod *corev1.Pod, entry string) string {
	for attempt := range mostAttempts {
		if name := claimName(pod, entry, attempt); k.claims.Get(pod.Namespace, name) == nil {
			return name
		}
	}
	return claimName(pod, entry, mostAttempts)
}

// prove notes which of the recorded claims exist that the cache lacks (RC-121).
func (k *caches) prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	s.Entries = slices.Clone(s.Entries)
	for i := range s.Entries {
		e := &s.Entries[i]
		if !e.Unread {
			continue
		}
		found, ok, _ := reconcile.Found[*metav1.PartialObjectMetadata](proof, claimRef(s.Pod.Namespace, e.Recorded))
		if !ok {
			continue
		}
		e.Unread = false
		e.Hidden = found != nil && metav1.IsControlledBy(found, s.Pod)
	}
	return o
}

// live names the claims that a previous leader may have created: all of the namespace, if one of the pod's is missing.
// One list serves many pods, as their names distinguish what this process has created.
func live(s snapshot) (sets []reconcile.Live) {
	for _, e := range s.Entries {
		if e.Claim == nil {
			sets = append(sets, reconcile.Live{
				Kind: client.KindFor[*resourcev1.ResourceClaim](), Namespace: s.Pod.Namespace, Name: e.Free,
				Selector: labels.Everything(),
			})
		}
	}
	if sets != nil {
		sets = append(sets, reconcile.Live{Kind: client.KindFor[*resourcev1.ResourceClaim](),
			Namespace: s.Pod.Namespace, Selector: labels.Everything(), Shared: true})
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
	r := podutil.DeviceRecordsOf(p)
	return slices.ContainsFunc(p.Spec.ResourceClaims, func(e corev1.PodResourceClaim) bool {
		name, ok := r.Wanted(e)
		if !ok {
			return false
		}
		c := k.claims.Get(p.Namespace, name)
		return c == nil || !owned(c, p.UID)
	})
}

// enqueuedByPod returns a pod that may lack a claim, if it is new or its records have changed, and one that is gone, so
// that nothing of it is remembered.
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	switch {
	case is == nil:
		if was == nil || len(templatesOf(was)) == 0 {
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
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if was != nil && is != nil && was.UID == is.UID &&
		equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(was), metav1.GetControllerOfNoCopy(is)) {
		return nil
	}
	for _, c := range []*resourcev1.ResourceClaim{was, is} {
		if c == nil {
			continue
		}
		users := k.pods.By(made + c.Namespace + "/" + c.Name)
		if ref := podOf(c); ref != nil {
			if p := k.pods.Get(c.Namespace, ref.Name); p != nil && p.UID == ref.UID {
				users = append(users, p)
			}
		}
		for _, p := range users {
			if k.lacks(p) {
				keys = append(keys, plan.KeyOf(p))
			}
		}
	}
	return distinctKeys(keys)
}

// enqueuedByTemplate returns the pods that may lack a claim of a template that is new or has changed (RC-113).
func (k *caches) enqueuedByTemplate(_, after plan.Object) (keys []plan.Key) {
	if after == nil {
		return nil
	}
	for _, p := range k.byTemplate.By(after.GetNamespace() + "/" + after.GetName()) {
		if k.lacks(p) {
			keys = append(keys, plan.KeyOf(p))
		}
	}
	return keys
}

// distinctKeys returns each key once, by name.
func distinctKeys(keys []plan.Key) []plan.Key {
	slices.SortFunc(keys, func(a, b plan.Key) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(keys)
}
