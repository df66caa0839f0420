package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// outOfOrder is a node out of service, with a pod that is to end there and was made Failed last.
func outOfOrder(s *scene) Object {
	n := aNode()
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	node := s.User().Create(n)
	pod := s.User().Terminate(s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0])
	s.Manager().Edit(pod, fail)
	return node
}

// twoRules has podgc remove one of two terminated pods because it is to end and has no node, and the other one later.
func twoRules(later time.Duration) func(*scene) {
	return func(s *scene) {
		pods := s.pods(s.User().Create(aSet(nil, "a", 2)), 2)
		one := s.User().Edit(pods[0], fail)
		other := s.User().Edit(s.User().Terminate(pods[1]), fail)
		s.Podgc().Delete(other)
		s.Wait(later)
		s.Podgc().Delete(one)
	}
}

func repair(o Object) {
	o.(*corev1.Node).Status.Conditions[0].Status = corev1.ConditionTrue
	o.(*corev1.Node).Spec.Taints = nil
}

func TestPodGCFollowsItsRules(t *testing.T) { // S12
	// lost is a pod of a node that is gone, looked for after a time.
	lost := func(s *scene, wait time.Duration, code int) Object {
		node := s.User().Create(aNode())
		pod := s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0]
		s.User().Delete(node)
		s.Wait(wait)
		s.Manager().Ask("get", "nodes", "n1", code)
		return pod
	}
	collect := func(s *scene, pod Object, disrupt bool) {
		pod = s.Manager().Edit(pod, fail)
		if disrupt {
			s.Revisions[len(s.Revisions)-1].Object.(*corev1.Pod).Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
		}
		s.Podgc().Delete(pod)
	}
	run(t, PodGCFollowsItsRules(), []history{
		{name: "no rule", write: func(s *scene) {
			s.User().Create(aNode())
			s.Podgc().Delete(s.User().Edit(s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0], fail))
		}, want: "no rule of podgc names it"},
		{name: "an orphan", write: func(s *scene) { collect(s, lost(s, time.Minute, 404), true) }},
		{name: "an orphan too early", write: func(s *scene) { collect(s, lost(s, 20*time.Second, 404), true) },
			want: "after its node was gone"},
		{name: "an orphan early enough for the options", write: func(s *scene) { collect(s, lost(s, 20*time.Second, 404), true) },
			options: Options{OrphanQuarantine: 10 * time.Second}},
		{name: "a node that the live read found", write: func(s *scene) { collect(s, lost(s, time.Minute, 200), true) },
			want: "without a live read"},
		{name: "no condition", write: func(s *scene) { collect(s, lost(s, time.Minute, 404), false) },
			want: "no condition DisruptionTarget"},
		{name: "not made Failed first", write: func(s *scene) { s.Podgc().Delete(lost(s, time.Minute, 404)) }, want: `in phase "Running"`},
		{name: "a node that is back", write: func(s *scene) {
			pod := lost(s, time.Minute, 404)
			s.User().Create(aNode())
			s.Wait(time.Minute)
			collect(s, pod, true)
		}, want: "no rule of podgc"},
		{name: "a node that came back while the deletion was on its way", write: func(s *scene) {
			pod := lost(s, time.Minute, 404)
			s.User().Create(aNode())
			collect(s, pod, true)
		}},
		{name: "a node that came back too early", write: func(s *scene) {
			pod := lost(s, 20*time.Second, 404)
			s.User().Create(aNode())
			collect(s, pod, true)
		}, want: "after its node was gone"},
		{name: "a node that came into service while the deletion was on its way", write: func(s *scene) {
			s.User().Edit(outOfOrder(s), repair)
			s.Podgc().Delete(s.Revisions[len(s.Revisions)-2].Object)
		}},
		{name: "a node that came into service long before", write: func(s *scene) {
			s.User().Edit(outOfOrder(s), repair)
			s.Wait(time.Minute)
			s.Podgc().Delete(s.Revisions[len(s.Revisions)-2].Object)
		}, want: "no rule of podgc"},
		{name: "terminating without a node, and on one out of service", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pod := s.User().Terminate(s.pods(set, 1)[0])
			s.Podgc().Delete(s.Manager().Edit(pod, fail))
			node := aNode()
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
			s.User().Create(node)
			pod = s.User().Terminate(s.up(set, 1)[0])
			s.Podgc().Delete(s.Manager().Edit(pod, fail))
		}},
		{name: "more terminated pods than allowed, down to the threshold", write: func(s *scene) {
			for _, p := range s.pods(s.User().Create(aSet(nil, "a", 3)), 3) {
				s.User().Edit(p, fail)
			}
			s.Podgc().Delete(s.Revisions[4].Object)
		}, options: Options{TerminatedPodThreshold: 2}},
		{name: "more terminated pods than allowed, of which another rule removes one as well", write: twoRules(0),
			options: Options{TerminatedPodThreshold: 1}},
		{name: "as many terminated pods as allowed, since another rule removed one", write: twoRules(time.Minute),
			options: Options{TerminatedPodThreshold: 1}, want: "1 terminated pods"},
		{name: "more terminated pods than allowed, and one too far", write: func(s *scene) {
			for _, p := range s.pods(s.User().Create(aSet(nil, "a", 3)), 3) {
				s.User().Edit(p, fail)
			}
			s.Podgc().Delete(s.Revisions[4].Object)
			s.Podgc().Delete(s.Revisions[5].Object)
		}, options: Options{TerminatedPodThreshold: 2}, want: "2 terminated pods"},
	})
}
