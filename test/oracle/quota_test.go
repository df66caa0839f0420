package oracle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func mapLimit(n int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse(fmt.Sprint(n))}
}

// usedMaps sets the status of a quota.
func usedMaps(hard, used int) func(Object) {
	return func(o Object) {
		o.(*corev1.ResourceQuota).Status = corev1.ResourceQuotaStatus{Hard: mapLimit(hard), Used: mapLimit(used)}
	}
}

func TestQuotasHold(t *testing.T) { // S25
	const broken = "with it, quota few has 3 of 2 configmaps; its status says that 1 are used"
	begin := func(s *scene) Object {
		q := s.Manager().Edit(s.User().Create(&corev1.ResourceQuota{ObjectMeta: named("few"),
			Spec: corev1.ResourceQuotaSpec{Hard: mapLimit(2)}}), usedMaps(2, 0))
		s.Wait(time.Minute)
		for i := range 2 {
			q = s.User().Edit(q, usedMaps(2, i+1))
			s.User().Create(aMap(fmt.Sprint("c-", i)))
		}
		return q
	}
	run(t, QuotasHold(), []history{
		{name: "as many as the limit", write: func(s *scene) { begin(s) }},
		{name: "RQ-57 the usage is lowered too far", write: func(s *scene) {
			s.Manager().Edit(begin(s), usedMaps(2, 1))
			s.User().Create(aMap("more"))
		}, want: broken},
		{name: "one has gone", write: func(s *scene) {
			q := begin(s)
			s.User().Delete(s.find(ConfigMap))
			s.Manager().Edit(q, usedMaps(2, 1))
			s.User().Create(aMap("more"))
		}},
		{name: "the limit was just lowered", write: func(s *scene) {
			q := begin(s)
			s.Manager().Edit(q, usedMaps(1, 2))
			s.Wait(time.Second)
			s.User().Create(aMap("more"))
		}},
		{name: "RQ-25 the processors of pods", write: func(s *scene) { askFor(s, "limits.cpu", "1500m", nil, 2, nil) },
			want: "has 2 of 1500m limits.cpu"},
		{name: "RQ-24 of pods that have not ended", write: func(s *scene) { askFor(s, "limits.cpu", "1500m", nil, 2, succeed) }},
		{name: "RQ-27 of those in the scope", write: func(s *scene) {
			askFor(s, "pods", "1",
				[]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort}, 2, nil)
		}, want: "has 2 of 1 pods"},
		{name: "RQ-27 and of no others", write: func(s *scene) {
			askFor(s, "pods", "1", []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}, 3, nil)
			askFor(s, "pods", "1", []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, 3, nil)
		}},
		{name: "RQ-29 the storage of claims", write: func(s *scene) {
			aQuota(s, "requests.storage", "3Gi", nil)
			for i := range 2 {
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: named(fmt.Sprint("data-", i))}
				claim.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse("2Gi")}
				s.User().Create(claim)
			}
		}, want: "has 4Gi of 3Gi requests.storage"},
		{name: "the quota is gone", write: func(s *scene) {
			s.User().Delete(begin(s))
			s.User().Create(aMap("more"))
		}},
	})
}

// aQuota has limited a name for a while.
func aQuota(s *scene, name corev1.ResourceName, hard string, scopes []corev1.ResourceQuotaScope) {
	s.n++
	list := corev1.ResourceList{name: resource.MustParse(hard)}
	s.Manager().Edit(s.User().Create(&corev1.ResourceQuota{ObjectMeta: named(fmt.Sprint("q-", s.n)),
		Spec: corev1.ResourceQuotaSpec{Hard: list, Scopes: scopes}}),
		func(o Object) { o.(*corev1.ResourceQuota).Status.Hard = list })
	s.Wait(time.Minute)
}

// askFor creates pods, each of which may use one processor, under a quota. What is done to each comes before the next.
func askFor(s *scene, name corev1.ResourceName, hard string, scopes []corev1.ResourceQuotaScope, pods int, then func(Object)) {
	aQuota(s, name, hard, scopes)
	for range pods {
		s.n++
		one := corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}
		p := s.User().Create(&corev1.Pod{ObjectMeta: named(fmt.Sprint("p-", s.n)),
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: one}}}})
		if then != nil {
			s.User().Edit(p, then)
		}
	}
}
