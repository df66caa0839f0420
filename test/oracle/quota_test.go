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

func TestS25(t *testing.T) {
	const broken = "with it, quota few has 3 of 2 configmaps; its status says that 1 are used"
	begin := func(s *scene) Object {
		q := s.Manager().Edit(s.User().Create(&corev1.ResourceQuota{ObjectMeta: named("few"), Spec: corev1.ResourceQuotaSpec{Hard: mapLimit(2)}}), usedMaps(2, 0))
		s.Wait(time.Minute)
		for i := range 2 {
			q = s.User().Edit(q, usedMaps(2, i+1))
			s.User().Create(aMap(fmt.Sprint("c-", i)))
		}
		return q
	}
	run(t, S25(), []history{
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
		{name: "the quota is gone", write: func(s *scene) {
			s.User().Delete(begin(s))
			s.User().Create(aMap("more"))
		}},
	})
}
