package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func aBudget(most int32) *policyv1.PodDisruptionBudget {
	limit := intstr.FromInt32(most)
	return &policyv1.PodDisruptionBudget{ObjectMeta: named("web"), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &limit, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
}

// allows is the status that the manager writes, which names some pods as disrupted.
func allows(n int32, disrupted ...Object) func(Object) {
	return func(o Object) {
		b := o.(*policyv1.PodDisruptionBudget)
		kept := map[string]metav1.Time{}
		for _, p := range disrupted {
			kept[p.GetName()] = b.Status.DisruptedPods[p.GetName()]
		}
		b.Status.DisruptionsAllowed, b.Status.DisruptedPods = n, kept
	}
}

// evict is what the API server does: it takes a disruption, and deletes the pod.
func (s *scene) evict(budget, pod Object) (_, _ Object) {
	budget = s.User().Edit(budget, func(o Object) {
		b := o.(*policyv1.PodDisruptionBudget)
		all := map[string]metav1.Time{pod.GetName(): metav1.NewTime(s.Now)}
		for name, since := range b.Status.DisruptedPods {
			all[name] = since
		}
		b.Status.DisruptedPods, b.Status.DisruptionsAllowed = all, b.Status.DisruptionsAllowed-1
	})
	return budget, s.User().Terminate(pod)
}

func TestEvictionsRespectBudgets(t *testing.T) { // S24
	const broken = "leaves 1 healthy pods of the 2 that are asked for"
	begin := func(s *scene) (budget Object, pods []Object) {
		pods = s.up(s.User().Create(aSet(nil, "a", 3)), 3)
		s.Wait(time.Minute)
		return s.Manager().Edit(s.User().Create(aBudget(1)), allows(1)), pods
	}
	run(t, EvictionsRespectBudgets(), []history{
		{name: "one eviction", write: func(s *scene) {
			b, pods := begin(s)
			s.evict(b, pods[0])
		}},
		{name: "DIS-17 two at once", write: func(s *scene) {
			b, pods := begin(s)
			b, _ = s.evict(b, pods[0])
			s.evict(s.Manager().Edit(b, allows(1, pods[0])), pods[1])
		}, want: broken},
		{name: "the first is forgotten", write: func(s *scene) {
			b, pods := begin(s)
			b, _ = s.evict(b, pods[0])
			s.Wait(time.Second)
			s.evict(s.Manager().Edit(b, allows(1)), pods[1])
		}, want: broken},
		{name: "two, one after the other", write: func(s *scene) {
			b, pods := begin(s)
			b, first := s.evict(b, pods[0])
			s.User().Delete(first)
			s.up(s.find(ReplicaSet), 1)
			s.evict(s.Manager().Edit(b, allows(1)), pods[1])
		}},
		{name: "a pod fails at the same time", write: func(s *scene) {
			b, pods := begin(s)
			s.User().Edit(pods[2], unready)
			s.evict(b, pods[0])
		}},
		{name: "a pod has failed long before", write: func(s *scene) {
			b, pods := begin(s)
			s.User().Edit(pods[2], unready)
			s.Manager().Edit(s.find(ReplicaSet), observe)
			s.Wait(time.Minute)
			s.evict(b, pods[0])
		}, want: broken},
		{name: "a pod has failed long before, but no manager works since", write: func(s *scene) { // simulation seed 2766448941
			b, pods := begin(s)
			s.User().Edit(pods[2], unready)
			s.Wait(time.Minute)
			s.evict(b, pods[0])
		}},
		{name: "a pod has failed while the manager could not see", write: func(s *scene) {
			b, pods := begin(s)
			s.User().Edit(pods[2], unready)
			s.Wait(time.Minute)
			s.evict(b, pods[0])
		}, options: Options{Outages: []Outage{
			Blackout(time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 3, 0, 0, time.UTC))}}},
		{name: "more pods are asked for long before", write: func(s *scene) {
			b, pods := begin(s)
			s.Manager().Edit(s.User().Edit(s.find(ReplicaSet), size(4)), observe)
			s.Wait(time.Minute)
			s.evict(b, pods[0])
		}, want: "leaves 2 healthy pods of the 3"},
		{name: "the owner is not known", write: func(s *scene) {
			b, pods := begin(s)
			s.User().Delete(s.find(ReplicaSet))
			s.Wait(time.Minute)
			b, _ = s.evict(b, pods[0])
			s.evict(b, pods[1])
		}},
		{name: "the size of a Deployment counts", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			pods := s.up(s.User().Create(aSet(d, "a", 5)), 2)
			s.Wait(time.Minute)
			b := s.Manager().Edit(s.User().Create(aBudget(1)), allows(1))
			s.evict(b, pods[0])
		}, want: broken},
		{name: "an integer counts pods", write: func(s *scene) {
			b, pods := begin(s)
			b = s.User().Edit(b, func(o Object) {
				least := intstr.FromInt32(2)
				o.(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable, o.(*policyv1.PodDisruptionBudget).Spec.MinAvailable = nil, &least
			})
			b, _ = s.evict(b, pods[0])
			s.evict(b, pods[1])
		}, want: broken},
		{name: "a ReplicationController", write: func(s *scene) {
			rc := &corev1.ReplicationController{ObjectMeta: named("old")}
			rc.Spec.Replicas = new(int32(3))
			owner := s.User().Create(rc)
			var pods []Object
			for range 2 {
				p := s.aPod(aSet(nil, "a", 1))
				ownedBy(p, ReplicationController, owner)
				pods = append(pods, s.User().Edit(s.Manager().Create(p), s.run))
			}
			s.Wait(time.Minute)
			s.evict(s.Manager().Edit(s.User().Create(aBudget(1)), allows(1)), pods[0])
		}, want: broken},
	})
}

// find returns the present state of the only object of a kind.
func (s *scene) find(kind string) Object {
	for i := len(s.Revisions) - 1; i >= 0; i-- {
		if s.Revisions[i].Kind() == kind {
			return s.Revisions[i].Object
		}
	}
	return nil
}
