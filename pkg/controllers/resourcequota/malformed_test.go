package resourcequota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, what is written leaves nothing to write, and when all objects are gone nothing is remembered.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		s := newSources(quota.Gates{ExtendedResourcesByClaims: true, PodLevelResources: true}, 0)
		s.counters = newUsageCounters(func(plan.Key) {})
		q := &corev1.ResourceQuota{}
		fill(q)
		q.Namespace, q.Name, q.UID = "shop", "some", "q"
		c, err := quotaSpecOf(q, s.gates)
		if err == nil {
			s.counters.setQuota(someKey, &c)
		}
		counters := []*typedCounter{s.newCounter(quota.Pods(), func() {}), s.newCounter(quota.Services(), func() {}), s.newCounter(quota.Claims(), func() {}), s.newCounter(quota.ResourceClaims(), func() {})}
		put := func(counter *typedCounter, o metav1.Object, name string) {
			fill(o)
			o.SetNamespace("shop")
			o.SetName(name)
			o.SetUID(types.UID(name))
			counter.OnUpdate(o)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "objects") {
			put(counters[0], &corev1.Pod{}, fmt.Sprint(i))
			put(counters[1], &corev1.Service{}, fmt.Sprint(i))
			put(counters[2], &corev1.PersistentVolumeClaim{}, fmt.Sprint(i))
			put(counters[3], &resourcev1.ResourceClaim{}, fmt.Sprint(i))
		}
		sum, _, _ := s.counters.count("shop", c, 0)
		snap := snapshot{Quota: q, Counted: corev1.ResourceList{}}
		for name := range q.Spec.Hard {
			if amount, ok := sum[name]; ok {
				snap.Counted[name] = amount
			}
		}
		snap.Memory = memory{}.advance(epoch, q, snap.Counted, []version{{Version: versionOf(q), Used: q.Status.Used}}, nil)
		if after := written(planUsage(epoch, snap)); after != nil {
			again := q.DeepCopy()
			again.Status, snap.Quota = *after, again
			if p := planUsage(epoch, snap); !p.Empty() {
				t.Errorf("there is still something to do: %s: %+v, then %+v", p.Why, after, written(p))
			}
		}
		for _, counter := range counters {
			counter.OnList(nil)
		}
		s.counters.setQuota(someKey, nil)
		if n := len(s.counters.namespaces) + len(s.counters.interned) + len(s.counters.expiring) + len(s.devices.claims) + len(s.devices.pods) + len(s.devices.byPod); n > 0 {
			t.Errorf("%d things are remembered of what is gone", n)
		}
	})
}
