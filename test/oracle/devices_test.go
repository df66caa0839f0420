package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDevicesFollowPods(t *testing.T) { // S37
	template := "gpus"
	aPod := func(s *scene) Object {
		return s.User().Create(&corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{NodeName: "n",
			ResourceClaims: []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: &template}, {Name: "b"}}}})
	}
	claim := func(name, entry string, pod Object) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: named(name)}
		c.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: entry}
		if pod != nil {
			ownedBy(c, Pod, pod)
		}
		return c
	}
	aGroup := func(s *scene) Object {
		return s.User().Create(&schedulingv1beta1.PodGroup{ObjectMeta: named("g"), Spec: schedulingv1beta1.PodGroupSpec{
			ResourceClaims: []schedulingv1beta1.PodGroupResourceClaim{{Name: "a", ResourceClaimTemplateName: &template}}}})
	}
	ofGroup := func(name, entry string, group Object) *resourcev1.ResourceClaim {
		c := claim(name, entry, nil)
		ownedBy(c, PodGroup, group)
		return c
	}
	reserveFor := func(group Object) func(Object) {
		return func(o Object) {
			o.(*resourcev1.ResourceClaim).Status = resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{},
				ReservedFor: []resourcev1.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups",
					Name: group.GetName(), UID: group.GetUID()}}}
		}
	}
	end := func(s *scene, pod Object) {
		s.User().Edit(pod, func(o Object) { o.(*corev1.Pod).Status.Phase = corev1.PodFailed })
	}
	reserve := func(pods ...Object) func(Object) {
		return func(o Object) {
			status := &o.(*resourcev1.ResourceClaim).Status
			status.Allocation, status.ReservedFor = &resourcev1.AllocationResult{}, nil
			for _, p := range pods {
				status.ReservedFor = append(status.ReservedFor,
					resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.GetName(), UID: p.GetUID()})
			}
		}
	}
	free := func(o Object) { o.(*resourcev1.ResourceClaim).Status = resourcev1.ResourceClaimStatus{} }
	shared := func(s *scene, pods ...Object) Object {
		c := &resourcev1.ResourceClaim{ObjectMeta: named("shared")}
		c.Finalizers = []string{resourcev1.Finalizer, "x"}
		return s.User().Edit(s.User().Create(c), reserve(pods...))
	}
	run(t, DevicesFollowPods(), []history{
		{name: "RC-121 a pod gets its claim, and both go", write: func(s *scene) {
			p := aPod(s)
			c := s.Manager().Create(claim("c", "a", p))
			s.User().Delete(p)
			s.Manager().Delete(c)
		}},
		{name: "RC-121 a claim for a pod that never was", write: func(s *scene) {
			s.Manager().Create(claim("c", "a", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "x"}}))
		}, want: "never existed"},
		{name: "RC-160 a PodGroup gets its claim, and keeps it", write: func(s *scene) {
			g := aGroup(s)
			c := s.Manager().Create(ofGroup("c", "a", g))
			c = s.User().Edit(c, reserveFor(g))
			s.User().Delete(g)
			s.Manager().Edit(c, free)
		}},
		{name: "RC-160 a claim for a PodGroup that never was", write: func(s *scene) {
			s.Manager().Create(ofGroup("c", "a", &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "g",
				UID: "x"}}))
		}, want: "never existed"},
		{name: "RC-160 a claim for an entry that it does not have", write: func(s *scene) {
			s.Manager().Create(ofGroup("c", "b", aGroup(s)))
		}, want: "does not have"},
		{name: "RC-160 two claims for one entry of it", write: func(s *scene) {
			g := aGroup(s)
			s.Manager().Create(ofGroup("c", "a", g))
			s.Manager().Create(ofGroup("d", "a", g))
		}, want: "the second claim"},
		{name: "RC-161 its reservation goes, and it is there", write: func(s *scene) {
			g := aGroup(s)
			c := s.Manager().Create(ofGroup("c", "a", g))
			s.Manager().Edit(s.User().Edit(c, reserveFor(g)), free)
		}, want: "which is there"},
		{name: "RC-161 its claim goes, and it is there", write: func(s *scene) {
			s.Manager().Delete(s.Manager().Create(ofGroup("c", "a", aGroup(s))))
		}, want: "deleted before its pod or PodGroup"},
		{name: "RC-161 a claim is reserved for one that never was", write: func(s *scene) {
			c := s.Manager().Create(ofGroup("c", "a", aGroup(s)))
			s.Manager().Edit(c, reserveFor(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "x"}}))
		}, want: "which is not there"},
		{name: "RC-121 a claim for nobody", write: func(s *scene) { s.Manager().Create(claim("c", "a", nil)) }, want: "never existed"},
		{name: "RC-121 a claim for an entry without a template", write: func(s *scene) {
			s.Manager().Create(claim("c", "b", aPod(s)))
		}, want: "does not have"},
		{name: "MEND-31 a claim for a pod that has ended since long", write: func(s *scene) {
			p := aPod(s)
			end(s, p)
			s.Wait(time.Minute)
			s.Manager().Create(claim("c", "a", p))
		}, want: "a pod that has ended"},
		{name: "a claim for a pod that has just ended", write: func(s *scene) {
			p := aPod(s)
			end(s, p)
			s.Manager().Create(claim("c", "a", p))
		}},
		{name: "RC-122 two claims for one entry", write: func(s *scene) {
			p := aPod(s)
			s.Manager().Create(claim("c", "a", p))
			s.Manager().Create(claim("d", "a", p))
		}, want: "the second claim"},
		{name: "RC-179 another one in place of one that was deleted", write: func(s *scene) {
			p := aPod(s)
			s.User().Delete(s.Manager().Create(claim("c", "a", p)))
			s.Manager().Create(claim("d", "a", p))
		}},
		{name: "RC-134 a claim goes before its pod", write: func(s *scene) {
			s.Manager().Delete(s.Manager().Create(claim("c", "a", aPod(s))))
		}, want: "before its pod"},
		{name: "RC-134 the claim of a pod that has failed", write: func(s *scene) {
			p := aPod(s)
			c := s.Manager().Create(claim("c", "a", p))
			end(s, p)
			s.Manager().Delete(c)
		}},
		{name: "RC-134 a claim of nobody", write: func(s *scene) { s.Manager().Delete(s.User().Create(claim("c", "a", nil))) },
			want: "without one"},
		{name: "a claim goes with its namespace", write: func(s *scene) {
			ns := s.User().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
			c := s.Manager().Create(claim("c", "a", aPod(s)))
			s.User().Terminate(ns)
			s.Manager().Delete(c)
		}},
		{name: "RC-130 the reservation of a pod that has failed", write: func(s *scene) {
			p := aPod(s)
			c := shared(s, p)
			end(s, p)
			s.Manager().Edit(c, free)
		}},
		{name: "RC-130 the reservation of a pod that runs", write: func(s *scene) {
			s.Manager().Edit(shared(s, aPod(s)), free)
		}, want: "which has not ended"},
		{name: "RC-127 a pod gets a reservation", write: func(s *scene) { s.Manager().Edit(shared(s), reserve(aPod(s))) }},
		{name: "MEND-31 a pod that has ended gets a reservation", write: func(s *scene) {
			p := aPod(s)
			c := shared(s)
			end(s, p)
			s.Wait(time.Minute)
			s.Manager().Edit(c, reserve(p))
		}, want: "which does not run"},
		{name: "RC-131 devices are given back that are in use", write: func(s *scene) {
			p := aPod(s)
			s.Manager().Edit(shared(s, p), func(o Object) { o.(*resourcev1.ResourceClaim).Status.Allocation = nil })
		}, want: "given back"},
		{name: "RC-132 the finalizer comes off a claim that is in use", write: func(s *scene) {
			s.Manager().Edit(shared(s, aPod(s)), func(o Object) { o.SetFinalizers([]string{"x"}) })
		}, want: "allocated or reserved"},
		{name: "RC-132 the finalizer comes off", write: func(s *scene) {
			p := aPod(s)
			c := shared(s, p)
			s.User().Delete(p)
			s.Manager().Edit(s.Manager().Edit(c, free), func(o Object) { o.SetFinalizers([]string{"x"}) })
		}},
		{name: "a user does as he likes", write: func(s *scene) {
			c := shared(s, aPod(s))
			s.User().Delete(s.User().Edit(c, free))
		}},
	})
}
