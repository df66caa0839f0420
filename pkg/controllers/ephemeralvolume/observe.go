package ephemeralvolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	pods   informers.ClaimPodCache
	claims informers.Store[*corev1.PersistentVolumeClaim]
}

// observe finds a pod and the claims that have the names of those of its ephemeral volumes.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists, o.Memory = true, r.Memory
	o.Snapshot = snapshot{Pod: pod, Claims: map[string]*corev1.PersistentVolumeClaim{}}
	if r.Memory != nil {
		o.Snapshot.Reported = r.Memory.Reported
	}
	for _, name := range ephemeralClaims(pod) {
		if c := k.claims.Get(pod.Namespace, name); c != nil {
			o.Snapshot.Claims[name] = c
		}
	}
	return o, nil
}

// live names the claims that a previous leader may have created: those that the cache lacks.
func live(s snapshot) (sets []reconcile.Live) {
	for _, name := range ephemeralClaims(s.Pod) {
		if s.Claims[name] == nil {
			sets = append(sets, reconcile.Live{
				Kind: client.KindFor[*corev1.PersistentVolumeClaim](), Namespace: s.Pod.Namespace, Name: name,
				Selector: labels.Everything(),
			})
		}
	}
	return sets
}

// enqueuedByPod returns a pod with ephemeral volumes that is new, or has taken the place of another one (ST-20), and
// one that is gone, so that nothing of it is remembered.
func enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	switch {
	case is == nil:
		if was == nil || len(ephemeralClaims(was)) == 0 {
			return nil
		}
	case was != nil && was.UID == is.UID, is.DeletionTimestamp != nil, len(ephemeralClaims(is)) == 0:
		return nil
	}
	return informers.Itself(before, after)
}

// enqueuedByClaim returns the pods that wait for a claim to be gone, or that have lost theirs: when it was deleted,
// also if another one took its name meanwhile and the watch has shown that only, and when it has another owner.
func (k *caches) enqueuedByClaim(before, after plan.Object) (keys []plan.Key) {
	if before == nil || after != nil && before.GetUID() == after.GetUID() && podutil.SameController(before, after) {
		return nil
	}
	for _, pod := range k.pods.Naming(before.GetNamespace(), before.GetName()) {
		for _, name := range ephemeralClaims(pod) {
			if name == before.GetName() {
				keys = append(keys, plan.KeyOf(pod))
			}
		}
	}
	return keys
}

// ephemeralClaims returns the names of the claims of a pod's ephemeral volumes, in the order of its spec.
func ephemeralClaims(p *corev1.Pod) (names []string) {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Ephemeral != nil {
			names = append(names, podutil.EphemeralClaim(p, v))
		}
	}
	return names
}
