package pvcprotection

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// mostUnknown is how many pods that the cache lacks are read live one by one. If it lacks more, all are.
	mostUnknown = 10
	// A namespace is left alone for so many times as long as its last live list took, but no longer than for longestPause.
	pauses       = 10
	longestPause = 5 * time.Second
)

// onNode selects the pods that are assigned to a node.
var onNode = fields.OneTermNotEqualSelector("spec.nodeName", "")

// memory is what is remembered of a namespace.
type memory struct {
	Next time.Time          // when its pods may be listed live again
	Told map[types.UID]bool // the claims of which an event has said which pod keeps them
}

// caches are what the controller reads.
type caches struct {
	claims informers.IndexedStore[*corev1.PersistentVolumeClaim] // those with something to do, by namespace
	pods   informers.ClaimPodCache

	refused *reconcile.Term[bool] // the account may not write the status of claims
}

// due is the index of claims: those with something to do are found by their namespace.
func due(claim *corev1.PersistentVolumeClaim) []string {
	if !protection.Due(claim) {
		return nil
	}
	return []string{claim.Namespace}
}

// observe finds the claims of a namespace that lack the finalizer or may lose it, and who uses the latter. The cache is asked first; of
// claims that no pod in it uses, one live list of pods decides (SM-37).
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (reconcile.Observation[snapshot, memory], error) {
	o, err := k.find(ctx, r)
	if err == nil && o.Exists {
		m := memory{Told: map[types.UID]bool{}}
		if o.Memory != nil {
			m.Next = o.Memory.Next
		}
		if r.Memory != nil {
			m.Told = maps.Clone(r.Memory.Told)
		}
		o.Snapshot.tell(r.Now, m.Told)
		o.Memory = &m
	}
	return o, err
}

// tell notes which claims that stay are to get an event, and when the next one is. Each claim gets one, and only if it stays for a while,
// so that there are few (SM-44).
func (s *snapshot) tell(now time.Time, told map[types.UID]bool) {
	stay := map[types.UID]bool{}
	for _, c := range s.Claims {
		if c.Pod == "" {
			continue
		}
		uid := c.Claim.UID
		stay[uid] = true
		switch wait := c.Claim.DeletionTimestamp.Add(patience).Sub(now); {
		case told[uid]:
		case wait <= 0:
			c.Tell, told[uid] = true, true
		case s.Tell == 0 || wait < s.Tell:
			s.Tell = wait
		}
	}
	maps.DeleteFunc(told, func(uid types.UID, _ bool) bool { return !stay[uid] })
}

// find is observe without events.
func (k *caches) find(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory], err error) {
	namespace := r.Key.Name
	found := k.claims.By(namespace)
	slices.SortFunc(found, func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) })
	o.Exists, o.Memory = len(found) > 0, r.Memory
	free := map[string]*claim{}
	for _, c := range found {
		o.Snapshot.Claims = append(o.Snapshot.Claims, &claim{Claim: c, Pod: k.cachedUser(c)})
		if one := o.Snapshot.Claims[len(o.Snapshot.Claims)-1]; c.DeletionTimestamp != nil && one.Pod == "" {
			free[c.Name] = one
		}
	}
	if len(free) == 0 {
		return o, nil
	}
	if r.Memory != nil && r.Now.Before(r.Memory.Next) {
		o.Snapshot.Pause = r.Memory.Next.Sub(r.Now)
		return o, nil
	}
	began := time.Now()
	if err := k.findLiveUsers(ctx, r.Reader, namespace, free); err != nil {
		return o, fmt.Errorf("pods that may use claims of the namespace %s: %w", namespace, err)
	}
	for _, c := range free {
		c.Checked = true
	}
	now := time.Now()
	o.Memory = &memory{Next: now.Add(min(pauses*now.Sub(began), longestPause))}
	return o, nil
}

// cachedUser returns the name of a pod in the cache that uses the claim, the first one by name; empty if there is none.
func (k *caches) cachedUser(c *corev1.PersistentVolumeClaim) (name string) {
	if c.DeletionTimestamp == nil {
		return ""
	}
	for _, p := range k.pods.Naming(c.Namespace, c.Name) {
		if uses(p, c) && (name == "" || p.Name < name) {
			name = p.Name
		}
	}
	return name
}

// findLiveUsers lists the metadata of all pods of the namespace that are on nodes, and notes which of them use the claims. The volumes of
// a pod cannot be changed, so those of a pod in the cache are right. The others are read: the cache is late, or they have gone meanwhile.
func (k *caches) findLiveUsers(ctx context.Context, reader client.Reader, namespace string, free map[string]*claim) error {
	pods := client.MappingFor[*corev1.Pod]()
	list := &metav1.PartialObjectMetadataList{}
	if err := reader.List(ctx, pods, namespace, metav1.ListOptions{FieldSelector: onNode.String()}, list); err != nil {
		return err
	}
	var unknown []string
	for i := range list.Items {
		live := &list.Items[i]
		cached := k.pods.Get(namespace, live.Name)
		if cached == nil || cached.UID != live.UID {
			unknown = append(unknown, live.Name)
			continue
		}
		p := *cached
		p.ObjectMeta, p.Spec.NodeName = live.ObjectMeta, cmp.Or(cached.Spec.NodeName, "assigned since")
		note(free, &p)
	}
	selectors := []fields.Selector{onNode}
	if len(unknown) <= mostUnknown {
		selectors = nil
		for _, name := range unknown {
			selectors = append(selectors, fields.AndSelectors(onNode, fields.OneTermEqualSelector(metav1.ObjectNameField, name)))
		}
	}
	for _, selector := range selectors {
		whole := &corev1.PodList{}
		if err := reader.List(ctx, pods, namespace, metav1.ListOptions{FieldSelector: selector.String()}, whole); err != nil {
			return err
		}
		for i := range whole.Items {
			note(free, &whole.Items[i])
		}
	}
	return nil
}

// note notes which claims a pod uses that was read live.
func note(free map[string]*claim, p *corev1.Pod) {
	for _, name := range podutil.Claims(p) {
		if c := free[name]; c != nil && uses(p, c.Claim) {
			c.Pod = p.Name
		}
	}
}

// enqueuedByClaim returns the namespace of a claim of which the finalizer is to be added, or may have to be taken off (SM-31), and of one
// that is gone, so that nothing is remembered of the namespace after its last one.
func enqueuedByClaim(before, after plan.Object) []plan.Key {
	if after == nil {
		return []plan.Key{{Name: before.GetNamespace()}}
	}
	if !protection.Due(after) {
		return nil
	}
	return []plan.Key{{Name: after.GetNamespace()}}
}

// enqueuedByPod returns the namespace of a pod that has let go of a claim which is being deleted (SM-32, SM-33). If the cache of claims
// does not show yet that one is, the claim enqueues the namespace when it does.
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was == nil || is != nil && is.UID == was.UID && (over(was) || !over(is)) {
		return nil
	}
	for _, name := range podutil.Claims(was) {
		if c := k.claims.Get(was.Namespace, name); c != nil && c.DeletionTimestamp != nil && protection.Due(c) {
			return []plan.Key{{Name: was.Namespace}}
		}
	}
	return nil
}
