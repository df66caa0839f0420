package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// aSlice is a slice of the Service web with pods that are up.
func aSlice(name, manager string, pods ...Object) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: named(name), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager}
	for _, o := range pods {
		p := o.(*corev1.Pod)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{p.Status.PodIPs[0].IP},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			TargetRef:  &corev1.ObjectReference{Kind: Pod, Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		})
	}
	return s
}

func TestSlicesHaveEachPodOnce(t *testing.T) { // S15
	// serving is a Service with two pods that are up, of which a slice has the first n.
	serving := func(s *scene, n int) (pods []Object, slice Object) {
		s.User().Create(aService())
		pods = s.up(s.User().Create(aSet(nil, "a", 2)), 2)
		for _, p := range pods {
			if node := p.(*corev1.Pod).Spec.NodeName; node != "" && s.n < 100 {
				s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
				s.n = 100
			}
		}
		return pods, s.Manager().Create(aSlice("web-1", sliceController, pods[:n]...))
	}
	later := func(s *scene, d time.Duration) {
		s.Wait(d)
		s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	}
	run(t, SlicesHaveEachPodOnce(), []history{
		{name: "all is well", write: func(s *scene) { serving(s, 2); later(s, time.Minute) }},
		{name: "a pod is missing for too long", write: func(s *scene) { serving(s, 1); later(s, time.Minute) },
			want: "is in no slice of family IPv4"},
		{name: "a pod is missing for a moment", write: func(s *scene) {
			pods, slice := serving(s, 1)
			s.Wait(5 * time.Second)
			s.Manager().Edit(slice, func(o Object) {
				o.(*discoveryv1.EndpointSlice).Endpoints = aSlice("", "", pods...).Endpoints
			})
			later(s, time.Minute)
		}},
		{name: "a pod that is not ready is ready for too long", write: func(s *scene) {
			pods, _ := serving(s, 2)
			s.User().Edit(pods[0], unready)
			later(s, time.Minute)
		}, want: "its conditions are others"},
		{name: "a pod in two slices", write: func(s *scene) {
			pods, _ := serving(s, 2)
			s.Manager().Create(aSlice("web-2", sliceController, pods[1]))
			later(s, time.Minute)
		}, want: "is in 2 places"},
		{name: "a pod in a slice of somebody else, too", write: func(s *scene) {
			pods, _ := serving(s, 2)
			s.User().Create(aSlice("web-2", "me", pods[1]))
			later(s, time.Minute)
		}},
		{name: "a pod that is gone", write: func(s *scene) {
			pods, _ := serving(s, 2)
			s.User().Delete(pods[0])
			later(s, time.Minute)
		}, want: "there is no such pod"},
		{name: "the node of a pod has gone", write: func(s *scene) {
			pods, _ := serving(s, 2)
			s.User().Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pods[0].(*corev1.Pod).Spec.NodeName}})
			later(s, time.Minute)
		}},
		{name: "a slice of somebody else is written", write: func(s *scene) {
			pods, _ := serving(s, 2)
			slice := s.User().Create(aSlice("theirs", "me", pods[1]))
			s.Manager().Edit(slice, func(o Object) { o.(*discoveryv1.EndpointSlice).Endpoints = nil })
		}, want: `managed by "me"`},
		{name: "a slice of somebody else is garbage", write: func(s *scene) {
			pods, _ := serving(s, 2)
			slice := s.User().Create(aSlice("theirs", "me", pods[1]))
			s.collector().Delete(slice)
		}},
		{name: "no slice was ever written", write: func(s *scene) {
			s.User().Create(aService())
			p := s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0].(*corev1.Pod)
			s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}})
			later(s, time.Minute)
		}, options: Options{Slices: true}, want: "is in no slice of family IPv4"},
		{name: "no slice was ever written, and no such controller runs", write: func(s *scene) {
			s.User().Create(aService())
			p := s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0].(*corev1.Pod)
			s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}})
			later(s, time.Minute)
		}},
		{name: "outdated during an outage", write: func(s *scene) {
			pods, slice := serving(s, 2)
			s.User().Edit(pods[0], unready)
			s.Wait(35 * time.Second)
			s.Manager().Edit(slice, func(o Object) {
				e := o.(*discoveryv1.EndpointSlice).Endpoints
				e[0].Conditions.Ready, e[0].Conditions.Serving = ptr.To(false), ptr.To(false)
			})
			later(s, time.Minute)
		}, options: Options{Outages: []Outage{
			Blackout(time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC))}}},
	})
}
