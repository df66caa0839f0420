package pvcprotection

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// A namespace is left alone for so many times as long as its last live list took, but no longer than for
	// longestPause.
	pauses       = 10
	longestPause = 5 * time.Second
)

// memory is what is remembered of a namespace: when its pods may be listed again, and which claims had an
// event. Observe makes it, and prove sets the time.
type memory struct {
	Next     time.Time          // when its pods may be listed live again
	Reported map[types.UID]bool // the claims of which an event has said which pod keeps them
}

// caches are what the controller reads.
type caches struct {
	claims informers.IndexedStore[*corev1.PersistentVolumeClaim] // those with something to do, by namespace
	pods   informers.ClaimPodCache

	// refused is the term of the second queue: the account may not write the status of claims.
	refused *reconcile.Term[bool]
}

// due is the index of claims: those with something to do are found by their namespace.
func due(claim *corev1.PersistentVolumeClaim) []string {
	if !protection.Due(claim) {
		return nil
	}
	return []string{claim.Namespace}
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds the claims of a namespace that lack the finalizer or may lose it, and who uses the latter. The cache
// is asked first; of claims that no pod in it uses, one live list of pods decides (SM-37).
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	found := k.claims.By(r.Key.Name)
	if len(found) == 0 {
		return o, nil
	}
	slices.SortFunc(found, func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) })
	m := memory{Reported: map[types.UID]bool{}}
	if r.Memory != nil {
		m.Next, m.Reported = r.Memory.Next, maps.Clone(r.Memory.Reported)
	}
	o.Exists, o.Memory, o.Snapshot.Namespace = true, &m, r.Key.Name
	for _, c := range found {
		o.Snapshot.Claims = append(o.Snapshot.Claims, &claim{Claim: c, Pod: k.cachedUser(c)})
	}
	if len(o.Snapshot.free()) > 0 && r.Now.Before(m.Next) {
		o.Snapshot.Pause = m.Next.Sub(r.Now)
	}
	o.Snapshot.scheduleEvents(r.Now, m.Reported)
	return o, nil
}

// free returns the claims that are being deleted and that nobody is known to use, by name.
func (s *snapshot) free() map[string]*claim {
	free := map[string]*claim{}
	for _, c := range s.Claims {
		if c.Claim.DeletionTimestamp != nil && c.Pod == "" {
			free[c.Claim.Name] = c
		}
	}
	return free
}

// scheduleEvents notes which claims that stay are to get an event, and when the next one is. Each claim gets one, and
// only if it stays for a while, so that there are few (SM-44).
func (s *snapshot) scheduleEvents(now time.Time, reported map[types.UID]bool) {
	stay := map[types.UID]bool{}
	for _, c := range s.Claims {
		uid := c.Claim.UID
		if stay[uid] = c.Pod != "" || !c.Checked; c.Pod == "" {
			continue
		}
		switch wait := c.Claim.DeletionTimestamp.Add(eventDelay).Sub(now); {
		case reported[uid]:
		case wait <= 0:
			c.EventDue, reported[uid] = true, true
		case s.NextEvent == 0 || wait < s.NextEvent:
			s.NextEvent = wait
		}
	}
	maps.DeleteFunc(reported, func(uid types.UID, _ bool) bool { return !stay[uid] })
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

// prove notes which pods use the claims, of those that were read live. The volumes of a pod cannot be changed, so those
// of a pod in the cache are right. Of the others the plan has to ask for more than metadata: the cache is late, or they
// have gone meanwhile.
func (k *caches) prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	s.Claims = slices.Clone(s.Claims)
	for i, c := range s.Claims {
		one := *c
		s.Claims[i] = &one
	}
	free, list := s.free(), proof.Read[podsOnNodes(s.Namespace)]
	if list.Err != nil {
		return o
	}
	s.Listed = true
	for _, live := range list.Objects {
		cached := k.pods.Get(s.Namespace, live.GetName())
		if cached == nil || cached.UID != live.GetUID() {
			s.Unknown = append(s.Unknown, live.GetName())
			continue
		}
		p := *cached
		p.ObjectMeta = live.(*metav1.PartialObjectMetadata).ObjectMeta
		p.Spec.NodeName = cmp.Or(cached.Spec.NodeName, "assigned since")
		note(free, &p)
	}
	ended := list.Ended
	for _, ref := range wholePods(s.Namespace, s.Unknown) {
		whole, ok := proof.Read[ref]
		if !ok || whole.Err != nil {
			return o
		}
		for _, p := range whole.Objects {
			note(free, p.(*corev1.Pod))
		}
		if whole.Ended.After(ended) {
			ended = whole.Ended
		}
	}
	for _, c := range free {
		c.Checked = true
	}
	m := memory{Next: ended.Add(min(pauses*ended.Sub(list.Began), longestPause)),
		Reported: maps.Clone(o.Memory.Reported)}
	s.scheduleEvents(proof.Now, m.Reported)
	o.Memory = &m
	return o
}

// note notes which claims a pod uses that was read live.
func note(free map[string]*claim, p *corev1.Pod) {
	for _, name := range podutil.Claims(p) {
		if c := free[name]; c != nil && uses(p, c.Claim) {
			c.Pod = p.Name
		}
	}
}

// enqueuedByClaim returns the namespace of a claim of which the finalizer is to be added, or may have to be taken off
// (SM-31), and of one that is gone, so that nothing is remembered of the namespace after its last one.
func enqueuedByClaim(before, after plan.Object) []plan.Key {
	if after == nil {
		return []plan.Key{{Name: before.GetNamespace()}}
	}
	if !protection.Due(after) {
		return nil
	}
	return []plan.Key{{Name: after.GetNamespace()}}
}

// enqueuedByPod returns the namespace of a pod that has let go of a claim which is being deleted (SM-32, SM-33). If
// the cache of claims does not show yet that one is, the claim enqueues the namespace when it does.
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
