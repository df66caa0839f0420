package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestEndpointsAreReadyPods(t *testing.T) { // S11
	// serving is a Service with a pod that is up and in Endpoints.
	serving := func(s *scene) (service, pod, endpoints Object) {
		service = s.User().Create(aService())
		pod = s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0]
		endpoints = s.Manager().Create(someEndpoints(pod))
		return service, pod, endpoints
	}
	crowd := func(s *scene, n int) (pods []Object) {
		s.User().Create(aService())
		pods = s.up(s.User().Create(aSet(nil, "a", int32(n))), n)
		for i := range pods {
			p := pods[i].(*corev1.Pod)
			p.Status.PodIP = fmt.Sprintf("10.%d.%d.1", i/250, i%250)
			p.Status.PodIPs[0].IP = p.Status.PodIP
		}
		return pods
	}
	run(t, EndpointsAreReadyPods(), []history{
		{name: "an address of nobody", write: func(s *scene) {
			_, pod, _ := serving(s)
			stranger := pod.DeepCopyObject().(Object)
			stranger.SetUID("stranger")
			s.Manager().Edit(s.Revisions[len(s.Revisions)-1].Object,
				func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(stranger)) })
		}, want: "no such pod was ready and selected"},
		{name: "another address than the pod's", write: func(s *scene) {
			_, pod, endpoints := serving(s)
			moved := pod.DeepCopyObject().(*corev1.Pod)
			moved.Status.PodIP = "10.9.9.9"
			s.Manager().Edit(endpoints, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(moved)) })
		}, want: "the ready address 10.9.9.9"},
		{name: "outdated for too long", write: func(s *scene) {
			_, pod, _ := serving(s)
			s.User().Edit(pod, unready)
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}, want: "for more than 10s"},
		{name: "outdated at the end, for too long", write: func(s *scene) {
			_, pod, _ := serving(s)
			s.User().Edit(pod, unready)
		}, options: Options{End: NewScript().Now.Add(time.Minute)}, want: "for more than 10s"},
		{name: "outdated for a moment at the end", write: func(s *scene) {
			_, pod, _ := serving(s)
			s.User().Edit(pod, unready)
		}, options: Options{End: NewScript().Now.Add(5 * time.Second)}},
		{name: "outdated for a moment", write: func(s *scene) {
			_, pod, endpoints := serving(s)
			s.User().Edit(pod, unready)
			s.Wait(5 * time.Second)
			s.Manager().Edit(endpoints, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}},
		{name: "outdated during an outage", write: func(s *scene) {
			_, pod, endpoints := serving(s)
			s.User().Edit(pod, unready)
			s.Wait(35 * time.Second)
			s.Manager().Edit(endpoints, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}, options: Options{Outages: []Outage{
			Blackout(time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC))}}},
		{name: "no longer selected", write: func(s *scene) {
			service, _, _ := serving(s)
			s.User().Edit(service, func(o Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "other"} })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}, want: "without a ready pod that is selected"},
		{name: "a Service that has no selector any more (EP-9)", write: func(s *scene) {
			service, _, _ := serving(s)
			s.User().Edit(service, func(o Object) { o.(*corev1.Service).Spec.Selector = nil })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}},
		{name: "ready again", write: func(s *scene) {
			_, pod, _ := serving(s)
			up := pod.DeepCopyObject().(*corev1.Pod)
			s.User().Edit(s.User().Edit(pod, unready), func(o Object) { o.(*corev1.Pod).Status = up.Status })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}},
		{name: "more than 1000", write: func(s *scene) { s.Manager().Create(someEndpoints(crowd(s, 1001)...)) }, want: "1001 addresses"},
		{name: "1000 of more, not annotated", write: func(s *scene) {
			pods := crowd(s, 1001)
			s.Wait(time.Minute)
			s.Manager().Create(someEndpoints(pods[:1000]...))
		}, want: "not said to be truncated"},
		{name: "1000 of more, annotated", write: func(s *scene) {
			pods := crowd(s, 1001)
			s.Wait(time.Minute)
			e := someEndpoints(pods[:1000]...)
			annotate(overCapacity, "truncated")(e)
			s.Manager().Create(e)
		}},
		{name: "annotated for nothing", write: func(s *scene) {
			_, _, endpoints := serving(s)
			s.Manager().Edit(endpoints, annotate(overCapacity, "truncated"))
		}, want: "with at most 1 candidates"},
	})
}

// withMeta gives Endpoints the identity of others.
func withMeta(o Object, e *corev1.Endpoints) *corev1.Endpoints {
	e.ObjectMeta = *o.(*corev1.Endpoints).ObjectMeta.DeepCopy()
	return e
}
