package resourcequota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the quota and the objects are, nothing panics, and what is written leaves nothing to write.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		gates := quota.Gates{ExtendedResourcesByClaims: true, PodLevelResources: true}
		q := &corev1.ResourceQuota{}
		fill(q)
		q.Namespace, q.Name, q.UID = "shop", "some", "q"
		sum := corev1.ResourceList{}
		for range rapid.IntRange(0, 4).Draw(t, "objects") {
			var p corev1.Pod
			var s corev1.Service
			var c corev1.PersistentVolumeClaim
			var r resourcev1.ResourceClaim
			fill(&p)
			fill(&s)
			fill(&c)
			fill(&r)
			for _, item := range []quota.Item{quota.Pod(&p, gates), quota.Service(&s), quota.Claim(&c),
				quota.ResourceClaim(&r, nil, nil, gates)} {
				quota.Add(sum, item.At(epoch))
			}
		}
		snap := snapshot{Quota: q, Counted: corev1.ResourceList{}}
		for name := range q.Spec.Hard {
			if amount, ok := sum[name]; ok {
				snap.Counted[name] = amount
			}
		}
		snap.Memory = memory{}.advance(epoch, q, snap.Counted, []version{{Version: quota.Version(q), Used: q.Status.Used}}, nil)
		if after := written(planUsage(epoch, snap)); after != nil {
			again := q.DeepCopy()
			again.Status, snap.Quota = *after, again
			if p := planUsage(epoch, snap); !p.Empty() {
				t.Errorf("there is still something to do: %s: %+v, then %+v", p.Why, after, written(p))
			}
		}
	})
}
