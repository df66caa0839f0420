package oracle

import (
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNoSurgeBeyondMaxSurge(t *testing.T) { // S5
	run(t, NoSurgeBeyondMaxSurge(), []history{
		{name: "a second set beside a full one", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 3))
			s.User().Edit(d, image("b"))
			s.Manager().Create(aSet(d, "b", 2))
		}, want: "5 in all, more than 4"},
		{name: "within surge", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 3))
			s.User().Edit(d, image("b"))
			s.Manager().Create(aSet(d, "b", 1))
		}},
		{name: "scaled down, not observed", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 2))
			d = s.Manager().Edit(d, observe)
			s.User().Edit(d, size(1))
			s.Manager().Edit(s.Revisions[1].Object, size(3))
		}},
		{name: "scaled down and observed", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 2))
			d = s.User().Edit(d, size(1))
			s.Manager().Edit(d, observe)
			s.Manager().Edit(s.Revisions[1].Object, size(3))
		}, want: "3 in all, more than 2"},
		{name: "lowering may leave too much", write: func(s *scene) {
			d := s.User().Create(aDeployment(9))
			s.Manager().Create(aSet(d, "a", 9))
			d = s.User().Edit(d, size(1))
			s.Manager().Edit(d, observe)
			s.Manager().Edit(s.Revisions[1].Object, size(5))
		}},
		{name: "a user scales a set in between", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			a := s.Manager().Create(aSet(d, "a", 3))
			s.User().Edit(d, image("b"))
			s.User().Edit(a, size(7))
			s.Manager().Create(aSet(d, "b", 1))
		}},
		{name: "pods that terminate count if asked for", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			set := s.Manager().Create(aSet(d, "a", 1))
			for _, p := range s.pods(set, 1) {
				s.User().Terminate(p)
			}
			for _, p := range s.pods(set, 1) {
				s.User().Terminate(p)
			}
			s.pods(set, 1)
		}, options: Options{Surge: SurgeAll}, want: "now has 3 pods, more than 2"},
		{name: "pods that terminate don't count", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			set := s.Manager().Create(aSet(d, "a", 1))
			for range 3 {
				s.User().Terminate(s.pods(set, 1)[0])
			}
		}, options: Options{Surge: SurgeActive}},
	})
}

func TestDeletionsLeaveEnoughAvailable(t *testing.T) { // S6
	// rolling is a rollout with three old pods that are up and a new one.
	rolling := func(s *scene, newUp bool) (d, a, b Object, pods []Object) {
		d = s.User().Create(aDeployment(3))
		a = s.Manager().Create(aSet(d, "a", 3))
		pods = s.up(a, 3)
		a = s.Manager().Edit(a, observe)
		s.Wait(time.Minute)
		d = s.User().Edit(d, image("b"))
		b = s.Manager().Create(aSet(d, "b", 1))
		if newUp {
			s.up(b, 1)
		} else {
			s.pods(b, 1)
		}
		d = s.Manager().Edit(d, observe)
		return d, a, b, pods
	}
	run(t, DeletionsLeaveEnoughAvailable(), []history{
		{name: "an old pod goes before the new one is up", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available, fewer than 3"},
		{name: "the status lies", write: func(s *scene) {
			d, a, _, pods := rolling(s, false)
			s.Manager().Edit(d, status(4, 4, 4))
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}, want: "fewer than 3"},
		{name: "the new one is up", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}},
		{name: "another pod has just failed", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			s.Manager().Edit(a, size(2))
			s.User().Edit(pods[1], unready)
			s.Manager().Terminate(pods[0])
		}},
		{name: "another pod is evicted before the ReplicaSet deletes one", write: func(s *scene) { // simulation seed 20261128170900257
			_, a, _, pods := rolling(s, true)
			s.Manager().Edit(a, size(2))
			node := s.User().Create(tainted(corev1.TaintEffectNoExecute))
			s.Manager().Terminate(pods[1])
			s.User().Edit(node, func(o Object) { o.(*corev1.Node).Spec.Taints = nil })
			s.Manager().Terminate(pods[0])
		}},
		{name: "another pod was evicted long before the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			node := s.User().Create(tainted(corev1.TaintEffectNoExecute))
			s.Manager().Terminate(pods[1])
			s.User().Edit(node, func(o Object) { o.(*corev1.Node).Spec.Taints = nil })
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(1))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available"},
		{name: "another pod had failed long before the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			s.User().Edit(pods[1], unready)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available"},
		{name: "the pod that the size was decided for has become ready, and another one goes", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			late := s.User().Edit(pods[1], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			s.User().Edit(late, s.run)
			s.Manager().Terminate(pods[0])
		}},
		{name: "another Deployment had decided the size before this one adopted the ReplicaSet", write: func(s *scene) {
			d, a, _, pods := rolling(s, false)
			a = s.Manager().Edit(a, size(2))
			s.User().Delete(d)
			a = s.User().Edit(a, orphaned)
			d = s.User().Create(aDeployment(3))
			s.Manager().Edit(a, func(o Object) {
				o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))})
			})
			s.Manager().Terminate(pods[0])
		}},
		{name: "it had become ready long before the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			late := s.User().Edit(pods[1], unready)
			s.Wait(time.Minute)
			s.User().Edit(late, s.run)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available, fewer than 3"},
		{name: "the Deployment asks for fewer since the size was decided", write: func(s *scene) {
			d, a, _, pods := rolling(s, false)
			s.Manager().Edit(a, size(2))
			s.User().Edit(d, size(1))
			s.Manager().Terminate(pods[0])
		}},
		{name: "the Deployment asks for fewer since then, but not for so few", write: func(s *scene) {
			d, a, _, pods := rolling(s, false)
			s.Manager().Edit(a, size(0))
			s.User().Edit(d, size(1))
			for _, p := range pods {
				s.Manager().Terminate(p)
			}
		}, want: "0 pods of web are available, fewer than 1"},
		{name: "one that has just become ready, as nobody could know", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			late := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			late = s.User().Edit(late, s.run)
			s.Wait(time.Second)
			s.Manager().Terminate(late)
		}},
		{name: "one that had become ready long before", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			late := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			late = s.User().Edit(late, s.run)
			s.Wait(time.Minute)
			s.Manager().Terminate(late)
		}, want: "2 pods of web are available"},
		{name: "one that is not available", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			dead := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(dead)
		}},
		{name: "as many as were put back since the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			dead := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Terminate(dead)
			s.Wait(time.Minute)
			adopt(s, s.User().Edit(s.User().Create(quarantined(s, a)), released), a)
			s.Manager().Terminate(pods[1])
		}},
		{name: "one was put back long before the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			adopt(s, s.User().Edit(s.User().Create(quarantined(s, a)), released), a)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available, fewer than 3"},
		{name: "minReadySeconds have not passed", write: func(s *scene) {
			d := aDeployment(1)
			d.Spec.MinReadySeconds = 30
			web := s.User().Create(d)
			a := aSet(web, "a", 1)
			a.Spec.MinReadySeconds = 30
			old := s.Manager().Create(a)
			pod := s.up(old, 1)[0]
			old = s.Manager().Edit(old, observe)
			s.Wait(time.Minute)
			web = s.User().Edit(web, image("b"))
			b := aSet(web, "b", 1)
			b.Spec.MinReadySeconds = 30
			s.up(s.Manager().Create(b), 1)
			s.Wait(20 * time.Second)
			s.Manager().Edit(old, size(0))
			s.Manager().Terminate(pod)
		}, want: "0 pods of web are available, fewer than 1"},
		{name: "the ReplicaSet is gone, and the garbage collector deletes its pods", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			s.User().Delete(s.Manager().Edit(a, size(2)))
			s.Manager().Terminate(pods[0])
		}},
		{name: "scaled down", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			a := s.Manager().Create(aSet(d, "a", 3))
			pods := s.up(a, 3)
			s.User().Edit(d, size(1))
			s.Manager().Edit(a, size(1))
			s.Manager().Terminate(pods[0])
			s.Manager().Terminate(pods[1])
		}},
		{name: "a user scales the set", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			a := s.Manager().Create(aSet(d, "a", 3))
			pods := s.up(a, 3)
			a = s.User().Edit(a, size(1))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}},
		{name: "shared out by proportional scaling (DEP-37)", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			a = s.Manager().Edit(a, annotate(desiredAnnotation, "9"))
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}},
	})
}

func TestOneReplicaSetPerTemplate(t *testing.T) { // S7
	run(t, OneReplicaSetPerTemplate(), []history{
		{name: "twins", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Create(aSet(d, "a", 1))
			twin := aSet(d, "a", 1)
			twin.Name = "web-a2"
			twin.Spec.Template.Labels[hashLabel] = "a2"
			s.Manager().Create(twin)
		}, want: "has the same template"},
		{name: "a user's twin, of a moment ago", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			twin := aSet(d, "a", 1)
			twin.Name = "web-a2"
			s.User().Create(twin)
			s.Manager().Create(aSet(d, "a", 1))
		}},
		{name: "another template, and one whose twin is being deleted", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			a := s.Manager().Create(aSet(d, "a", 1))
			s.User().Edit(d, image("b"))
			s.Manager().Create(aSet(d, "b", 1))
			s.User().Terminate(a)
			again := aSet(d, "a", 1)
			again.Name = "web-a2"
			s.Manager().Create(again)
		}},
		{name: "a collision with nothing", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Create(aSet(d, "a", 1))
			s.Manager().Edit(d, collides(1))
		}, want: "no ReplicaSet stands in the way"},
		{name: "a collision with a stranger, and another one with the same", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(s.Manager().Edit(d, collides(1)), collides(2))
		}, want: "that did not before"},
		{name: "collisions with two strangers", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			d = s.Manager().Edit(d, collides(1))
			s.User().Create(aSet(nil, "b", 1))
			s.Manager().Edit(d, collides(2))
		}},
		{name: "a collision with the same stranger after a user has set the count back", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			d = s.User().Edit(s.Manager().Edit(d, collides(1)), collides(0))
			s.Manager().Edit(d, collides(1))
		}},
		{name: "two collisions at once", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(d, collides(2))
		}, want: "from 0 to 2"},
		{name: "a collision with a stranger", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(d, collides(1))
		}},
		{name: "a collision with its own set, which a webhook has altered", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Create(aSet(d, "altered", 1))
			s.Manager().Edit(d, collides(1))
		}},
	})
}

func collides(n int32) func(Object) {
	return func(o Object) { o.(*appsv1.Deployment).Status.CollisionCount = &n }
}

// quarantined is a pod with the template of a ReplicaSet, which a user has taken away from it.
func quarantined(s *scene, set Object) *corev1.Pod {
	p := s.aPod(set)
	p.OwnerReferences = nil
	p.Labels["app"] = "quarantine"
	return p
}

// released gives a pod the label back by which it is selected.
func released(o Object) {
	changed := maps.Clone(o.GetLabels())
	changed["app"] = "web"
	o.SetLabels(changed)
}

func adopt(s *scene, orphan, set Object) {
	s.Manager().Edit(orphan, func(o Object) { ownedBy(o, ReplicaSet, set) })
}

func adoptSet(s *scene, orphan, d Object) Object {
	return s.Manager().Edit(orphan, func(o Object) { ownedBy(o, "Deployment", d) })
}

func TestRecreateWaitsForOldPods(t *testing.T) { // S8
	// replaced is a Recreate Deployment with a new template and a terminating old pod.
	replaced := func(s *scene) (d, a, old Object) {
		d = s.User().Create(recreate(aDeployment(1)))
		a = s.Manager().Create(aSet(d, "a", 1))
		pod := s.up(a, 1)[0]
		d = s.User().Edit(d, image("b"))
		a = s.Manager().Edit(a, size(0))
		d = s.Manager().Edit(d, observe)
		return d, a, s.Manager().Terminate(pod)
	}
	// mixed is one whose old set a user has raised for a while, beside the new one with its pod.
	mixed := func(s *scene) (a, b Object, newPod, oldPod Object) {
		d, a, old := replaced(s)
		s.User().Delete(old)
		a = s.Manager().Edit(a, observe)
		b = s.Manager().Edit(s.Manager().Create(aSet(d, "b", 1)), observe)
		newPod = s.up(b, 1)[0]
		s.Wait(time.Minute)
		a = s.User().Edit(a, size(1))
		a = s.Manager().Edit(a, observe)
		oldPod = s.pods(a, 1)[0]
		a = s.Manager().Edit(s.Manager().Edit(a, size(0)), observe)
		s.Wait(time.Minute)
		return a, b, newPod, s.Manager().Terminate(oldPod)
	}
	run(t, RecreateWaitsForOldPods(), []history{
		{name: "a new pod is replaced while a user's old ones end", write: func(s *scene) {
			_, b, newPod, _ := mixed(s)
			s.User().Edit(newPod, fail)
			s.pods(b, 1)
		}},
		{name: "a late pod of the old set, long after a user's old ones have ended", write: func(s *scene) {
			a, b, newPod, oldPod := mixed(s)
			s.User().Delete(oldPod)
			s.Wait(time.Minute)
			s.User().Edit(newPod, fail)
			s.Wait(time.Minute)
			s.pods(a, 1)
			s.pods(b, 1)
		}, want: "created while pods of web-a are left: 1"},
		{name: "the new set before the old pod is gone", write: func(s *scene) {
			d, _, _ := replaced(s)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 1"},
		{name: "the new set when it is gone", write: func(s *scene) {
			d, _, old := replaced(s)
			s.User().Delete(old)
			s.up(s.Manager().Create(aSet(d, "b", 1)), 1)
		}},
		{name: "the new set when it has failed", write: func(s *scene) {
			d, _, old := replaced(s)
			s.User().Edit(old, fail)
			s.Manager().Create(aSet(d, "b", 1))
		}},
		{name: "a late pod of a set that a user has just deleted", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			a = s.Manager().Edit(a, observe)
			b := s.Manager().Create(aSet(d, "b", 1))
			s.Wait(time.Minute)
			s.User().Delete(b)
			s.pods(s.Manager().Edit(a, size(1)), 1)
			s.pods(b, 1)
		}},
		{name: "a pod of a set that a user has deleted long ago", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			a = s.Manager().Edit(a, observe)
			b := s.Manager().Create(aSet(d, "b", 1))
			s.Wait(time.Minute)
			s.User().Delete(b)
			s.pods(s.Manager().Edit(a, size(1)), 1)
			s.Wait(time.Minute)
			s.pods(b, 1)
		}, want: "created while pods of web-a are left: 1"},
		{name: "a late pod of the old set", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			s.Manager().Create(aSet(d, "b", 1))
			s.Wait(time.Minute)
			s.pods(a, 1)
			s.pods(s.Revisions[len(s.Revisions)-2].Object, 1)
		}, want: "created while pods of web-a are left"},
		{name: "an old pod is adopted between the decision and the new pods", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			orphan := s.User().Create(quarantined(s, a))
			b := s.Manager().Create(aSet(d, "b", 2))
			orphan = s.User().Edit(orphan, released)
			adopt(s, orphan, a)
			s.pods(b, 1)
			s.Wait(time.Minute) // a quota
			s.pods(b, 1)
		}},
		{name: "an old pod is adopted just before the decision", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			orphan := s.User().Edit(s.User().Create(quarantined(s, a)), released)
			s.Wait(time.Minute) // without a manager
			adopt(s, orphan, a)
			s.pods(s.Manager().Create(aSet(d, "b", 1)), 1)
		}},
		{name: "an old set is adopted between the decision and the new pods", write: func(s *scene) {
			d := s.User().Create(recreate(aDeployment(1)))
			orphan := s.Manager().Create(aSet(nil, "a", 2))
			s.up(orphan, 1)
			b := s.Manager().Create(aSet(d, "b", 1))
			orphan = adoptSet(s, orphan, d)
			s.pods(orphan, 1)
			s.pods(b, 1)
		}},
		{name: "an old set was adopted long before the decision", write: func(s *scene) {
			d := s.User().Create(recreate(aDeployment(1)))
			orphan := s.Manager().Create(aSet(nil, "a", 1))
			s.up(orphan, 1)
			adoptSet(s, orphan, d)
			s.Wait(time.Minute)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 1"},
		{name: "an old pod was adopted long before the decision", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			orphan := s.User().Edit(s.User().Create(quarantined(s, a)), released)
			adopt(s, orphan, a)
			s.Wait(time.Minute)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 1"},
		{name: "an adopted pod does not excuse another one", write: func(s *scene) {
			d, a, _ := replaced(s)
			orphan := s.User().Edit(s.User().Create(quarantined(s, a)), released)
			adopt(s, orphan, a)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 2"},
		{name: "the strategy has just changed", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.up(s.Manager().Create(aSet(d, "a", 1)), 1)
			d = s.User().Edit(d, image("b"))
			s.User().Edit(d, func(o Object) { recreate(o.(*appsv1.Deployment)) })
			s.up(s.Manager().Create(aSet(d, "b", 1)), 1)
		}},
		{name: "one that had begun before the strategy changed is scaled (DEP-35)", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			a := s.Manager().Create(aSet(d, "a", 1))
			old := s.up(a, 1)[0]
			d = s.User().Edit(d, image("b"))
			b := s.Manager().Create(aSet(d, "b", 1))
			d = s.User().Edit(d, func(o Object) { recreate(o.(*appsv1.Deployment)) })
			s.Manager().Edit(a, size(0))
			d = s.Manager().Edit(d, observe)
			s.Manager().Terminate(old)
			d = s.User().Edit(d, size(3))
			b = s.Manager().Edit(b, size(3))
			s.Manager().Edit(d, observe)
			s.Manager().Edit(b, observe)
			s.pods(b, 3)
		}},
		{name: "paused, and a set without size gets one beside old pods (DEP-35)", write: func(s *scene) {
			d, _, _ := replaced(s)
			b := s.User().Create(aSet(d, "b", 0))
			s.Wait(time.Minute)
			d = s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
			s.Manager().Edit(d, observe)
			s.Manager().Edit(b, size(1))
		}, want: "raised to 1 while pods of web-a are left"},
		{name: "back to the template whose pods are still there", write: func(s *scene) {
			d, a, _ := replaced(s)
			s.User().Edit(d, image("a"))
			s.Manager().Edit(a, size(1))
			s.pods(a, 1)
		}},
	})
}
