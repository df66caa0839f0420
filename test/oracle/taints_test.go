package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evicting are the taints of a node, by their keys.
func evicting(keys ...string) func(Object) {
	return func(o Object) {
		n := o.(*corev1.Node)
		n.Spec.Taints = nil
		for _, key := range keys {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
		}
	}
}

// mark is the condition that comes before an eviction.
func mark(o Object) {
	p := o.(*corev1.Pod)
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"})
}

// evictor is taint eviction.
func evictor(s *scene) Hand { return s.Manager().Account(evictionAccount) }

// evicted is what the eviction of a pod leaves in a history: a request without a version in its answer, and the end of the pod, which
// is nobody's.
func evicted(s *scene, by Hand, pod Object) {
	before := len(s.Requests)
	s.User().Delete(pod)
	s.Requests = s.Requests[:before]
	by = by.In(pod.GetNamespace())
	by.Request.Subresource = "eviction"
	by.Ask("create", "pods", pod.GetName(), 201)
}

func TestNoEvictionBeforeItsTime(t *testing.T) { // S27
	const broken = "although its node has the taints"
	// aPod is on the node n, and tolerates the taint k for a minute.
	aPod := func(s *scene) Object {
		minute := int64(60)
		return s.User().Create(&corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{
			{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: &minute}, {Key: "k", Operator: corev1.TolerationOpExists}}}})
	}
	aNode := func(s *scene) Object { return s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) }
	begin := func(s *scene) (node, pod Object) { return aNode(s), aPod(s) }
	after := func(wait time.Duration, taints ...string) func(*scene) {
		return func(s *scene) {
			node, pod := begin(s)
			s.User().Edit(node, evicting(taints...))
			s.Wait(wait)
			s.Manager().Edit(pod, mark)
		}
	}
	run(t, NoEvictionBeforeItsTime(), []history{
		{name: "TE-14 a taint that is not tolerated", write: after(0, "other")},
		{name: "TE-15 a time that is over", write: after(time.Minute, "k")},
		{name: "TE-13 and the first toleration counts", write: after(time.Hour, "k")},
		{name: "TE-15 a time that is not over", write: after(50*time.Second, "k"), want: broken},
		{name: "TE-15 the shortest time counts", write: after(time.Second, "k", "other")},
		{name: "no taint", write: after(time.Minute), want: broken},
		{name: "TE-43 the taint has just gone", write: func(s *scene) {
			node, pod := begin(s)
			node = s.User().Edit(node, evicting("other"))
			s.User().Edit(node, evicting())
			s.Manager().Edit(pod, mark)
		}},
		{name: "TE-43 the taint is gone since long", write: func(s *scene) {
			node, pod := begin(s)
			node = s.User().Edit(node, evicting("other"))
			s.User().Edit(node, evicting())
			s.Wait(time.Minute)
			s.Manager().Edit(pod, mark)
		}, want: broken},
		{name: "TE-61 the taint was there before the pod", write: func(s *scene) {
			s.User().Edit(aNode(s), evicting("k"))
			s.Wait(time.Hour)
			pod := aPod(s)
			s.Wait(30 * time.Second)
			s.Manager().Edit(pod, mark)
		}, want: broken},
		{name: "TE-21 marked, and deleted", write: func(s *scene) {
			node, pod := begin(s)
			s.User().Edit(node, evicting("other"))
			evictor(s).Delete(evictor(s).Edit(pod, mark))
		}},
		{name: "TE-21 deleted, and not marked", write: func(s *scene) {
			node, pod := begin(s)
			s.User().Edit(node, evicting("other"))
			evictor(s).Delete(pod)
		}, want: "was not marked"},
		{name: "marked in time, and deleted when the taint is gone since long", write: func(s *scene) {
			node, pod := begin(s)
			node = s.User().Edit(node, evicting("other"))
			pod = evictor(s).Edit(pod, mark)
			s.User().Edit(node, evicting())
			s.Wait(time.Minute)
			evictor(s).Terminate(pod)
		}, want: broken},
		{name: "marked in time, and deleted when the taint has just gone", write: func(s *scene) {
			node, pod := begin(s)
			node = s.User().Edit(node, evicting("other"))
			pod = evictor(s).Edit(pod, mark)
			s.User().Edit(node, evicting())
			evictor(s).Terminate(pod)
		}},
		{name: "another controller deletes it", write: func(s *scene) {
			_, pod := begin(s)
			s.Manager().Account("replicaset-controller").Delete(pod)
		}},
		{name: "TE-90 evicted by the API when it is due", write: func(s *scene) {
			node, pod := begin(s)
			s.User().Edit(node, evicting("other"))
			evicted(s, evictor(s), pod)
		}},
		{name: "TE-90 evicted by the API when it is not due", write: func(s *scene) {
			_, pod := begin(s)
			evicted(s, evictor(s), pod)
		}, want: broken},
		{name: "TE-90 its eviction is refused, and a user deletes it", write: func(s *scene) {
			_, pod := begin(s)
			h := evictor(s).In("shop")
			h.Request.Subresource = "eviction"
			h.Ask("create", "pods", "p", 429)
			s.User().Delete(pod)
		}},
		{name: "a user has it evicted by the API", write: func(s *scene) {
			_, pod := begin(s)
			evicted(s, s.User(), pod)
		}},
		{name: "a user marks it", write: func(s *scene) {
			_, pod := begin(s)
			s.User().Edit(pod, mark)
		}},
	})
}
