package resourcequota

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// RQ-52: sums that are kept up to date are those that counting anew finds, and each quota is told whose sum has changed.
func TestSumsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := map[plan.Key]bool{}
		counters := newUsageCounters(func(key plan.Key) { told[key] = true })
		names := map[schema.GroupResource]bool{quota.Pods(): true}
		quotas := map[plan.Key]quotaSpec{}
		for i, scope := range []corev1.ResourceQuotaScope{"", corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort} {
			spec := &corev1.ResourceQuotaSpec{}
			if scope != "" {
				spec.Scopes = []corev1.ResourceQuotaScope{scope}
			}
			selector, err := quota.NewSelector(spec)
			if err != nil {
				t.Fatal(err)
			}
			key := plan.Key{Namespace: "shop", Name: fmt.Sprint(i)}
			quotas[key] = quotaSpec{selector: selector, names: names}
			c := quotas[key]
			counters.setQuota(key, &c)
		}
		sums := func(anew bool) map[plan.Key]corev1.ResourceList {
			if anew {
				counters.recount()
			}
			all := map[plan.Key]corev1.ResourceList{}
			for key, c := range quotas {
				all[key], _, _ = counters.count("shop", c, 0)
				all[key] = all[key].DeepCopy()
			}
			return all
		}
		before := sums(false)
		for i := range rapid.IntRange(1, 30).Draw(t, "changes") {
			clear(told)
			uid := types.UID(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "pod")))
			if rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
				counters.remove(quota.Pods(), "shop", uid)
			} else {
				p := podNamed(string(uid))
				if cpu := rapid.SampledFrom([]string{"0", "100m", "2"}).Draw(t, "cpu"); cpu == "0" {
					p.Spec.Containers[0].Resources.Requests = nil
				} else {
					p.Spec.Containers[0].Resources.Requests = amounts("cpu", cpu)
				}
				counters.put(quota.Pods(), identity{"shop", uid, uint64(i)}, quota.Pod(p, quota.Gates{}), false)
			}
			after := sums(false)
			for key := range quotas {
				if !told[key] && !quota.Equal(before[key], after[key]) {
					t.Errorf("%s is not told: %v, then %v", key.Name, before[key], after[key])
				}
			}
			before = after
		}
		for key, anew := range sums(true) {
			if over := quota.Over(before[key], anew); len(over) > 0 || len(quota.Over(anew, before[key])) > 0 {
				t.Errorf("%s: %v, counted anew %v", key.Name, before[key], anew)
			}
		}
	})
}

// Arrivals are kept for as long as a reservation may wait for them.
func TestArrivalsAreForgotten(t *testing.T) {
	counters := newUsageCounters(func(plan.Key) {})
	c := quotaSpec{names: map[schema.GroupResource]bool{quota.Pods(): true}}
	counters.setQuota(someKey, &c)
	for i := range 10 {
		counters.put(quota.Pods(), identity{"shop", types.UID(fmt.Sprint(i)), uint64(i)}, quota.Object(quota.Pods()), false)
	}
	a := counters.namespaces["shop"]
	for i := range a.arrivals {
		a.arrivals[i].at = time.Now().Add(-time.Hour)
	}
	counters.put(quota.Pods(), identity{"shop", "x", 11}, quota.Object(quota.Pods()), false)
	counters.put(quota.Pods(), identity{"shop", "x", 12}, quota.Item{}, false) // it uses less
	counters.tick(time.Now())
	if _, arrived, last := counters.count("shop", c, 10); len(a.arrivals) != 1 || len(arrived) != 1 || last != 11 {
		t.Errorf("%d arrivals are kept, %d are new", len(a.arrivals), len(arrived))
	}
}

// What is charged follows from the fields that are cached, whatever the objects are; and nothing panics.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := projection.New(counted())
	if err != nil {
		t.Fatal(err)
	}
	every := quota.Gates{PodLevelResources: true, PodLevelResize: true, ExtendedResourcesByClaims: true}
	same := func(t *rapid.T, a, b quota.Item) {
		if !quota.Equal(a.At(epoch), b.At(epoch)) || fmt.Sprintf("%+v", a.Traits) != fmt.Sprintf("%+v", b.Traits) {
			t.Errorf("%v %+v with all fields, %v %+v with the cached ones", a.At(epoch), a.Traits, b.At(epoch), b.Traits)
		}
	}
	decode := func(t *rapid.T, o interface {
		Marshal() ([]byte, error)
	}, into interface{ Unmarshal([]byte) error }, kind schema.GroupVersionKind) {
		data, err := o.Marshal()
		if err == nil {
			mask := kept.Masks()[kind]
			err = into.Unmarshal(mask.Mask.Apply(data))
		}
		if err != nil {
			t.Skip(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		var p, p2 corev1.Pod
		var s, s2 corev1.Service
		var c, c2 corev1.PersistentVolumeClaim
		var r, r2 resourcev1.ResourceClaim
		fill(&p)
		fill(&s)
		fill(&c)
		fill(&r)
		decode(t, &p, &p2, corev1.SchemeGroupVersion.WithKind("Pod"))
		same(t, quota.Pod(&p, every), quota.Pod(&p2, every))
		decode(t, &s, &s2, corev1.SchemeGroupVersion.WithKind("Service"))
		same(t, quota.Service(&s), quota.Service(&s2))
		decode(t, &c, &c2, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		same(t, quota.Claim(&c), quota.Claim(&c2))
		decode(t, &r, &r2, resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"))
		same(t, quota.ResourceClaim(&r, nil, nil, every), quota.ResourceClaim(&r2, nil, nil, every))
	})
}
