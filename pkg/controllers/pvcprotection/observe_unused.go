package pvcprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// observeUnused finds a claim and a pod that names it. The cache decides: what it shows too late is put right when it
// does, and nothing is deleted because of it (SM-45).
func (k *caches) observeUnused(_ context.Context,
	r reconcile.Request[struct{}]) (o reconcile.Observation[usage, struct{}], err error) {
	c := k.claims.Get(r.Key.Namespace, r.Key.Name)
	if c == nil {
		return o, nil
	}
	o.Exists, o.Snapshot = true, k.usageOf(c)
	return o, nil
}

// usageOf finds a pod that uses a claim, by the cache: any of the thousands that may.
func (k *caches) usageOf(c *corev1.PersistentVolumeClaim) usage {
	refused, _ := k.refused.Get()
	u := usage{Claim: c, Refused: refused}
	users := k.pods.Naming(c.Namespace, c.Name)
	if i := slices.IndexFunc(users, func(p *corev1.Pod) bool { return names(p, c) }); i >= 0 {
		u.Pod = users[i].Name
	}
	return u
}

// unusedByClaim returns a claim whose condition differs, and one that is gone, so that nothing is remembered of it.
func (k *caches) unusedByClaim(before, after plan.Object) []plan.Key {
	if after == nil {
		return []plan.Key{plan.KeyOf(before)}
	}
	return k.unused(after.GetNamespace(), after.GetName())
}

// unusedByPod returns the claims whose condition differs because a pod has come, ended or gone.
func (k *caches) unusedByPod(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && was.UID == is.UID && podutil.Finished(was) == podutil.Finished(is) {
		return nil
	}
	for _, p := range []*corev1.Pod{was, is} {
		if p == nil || p == is && was != nil && was.UID == is.UID { // the volumes of a pod do not change
			continue
		}
		for _, claim := range podutil.Claims(p) {
			keys = append(keys, k.unused(p.Namespace, claim)...)
		}
	}
	return keys
}

// unused returns the key of a claim whose condition differs. Whichever cache is the last to show why it does leads
// here.
func (k *caches) unused(namespace, name string) []plan.Key {
	if c := k.claims.Get(namespace, name); c != nil && reportsUse(c) && k.usageOf(c).differs() {
		return []plan.Key{plan.KeyOf(c)}
	}
	return nil
}
