package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// blind is an outage of the first 55 seconds.
func blind(manager, resource string) Outage {
	start := NewScript().Now
	return Outage{Interval{start, start.Add(55 * time.Second)}, manager, resource}
}

// restored is a pod too many, a minute after another one got its label back.
func restored(s *scene) {
	set := s.User().Create(aSet(nil, "a", 1))
	pod := s.pods(set, 1)[0]
	pod = s.User().Edit(pod, func(o Object) { o.SetLabels(nil) })
	s.User().Edit(pod, func(o Object) { o.SetLabels(map[string]string{"app": "web", hashLabel: "a"}) })
	s.Wait(time.Minute)
	s.pods(set, 1)
}

func TestNoPodBeyondReplicas(t *testing.T) { // S1
	run(t, NoPodBeyondReplicas(), []history{
		{name: "one more than replicas", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.pods(set, 3)
		}, want: "replicas 2 now has 3"},
		{name: "as many as replicas, a failed and a terminating one aside", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(pods[0], fail)
			s.User().Terminate(pods[1])
			s.pods(set, 2)
		}},
		{name: "scaled down in the middle, and not observed yet", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.pods(set, 2)
			s.User().Edit(set, size(1))
			s.pods(set, 1)
		}},
		{name: "scaled down and observed", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.pods(set, 2)
			set = s.User().Edit(set, size(1))
			set = s.Manager().Edit(set, observe)
			s.pods(set, 1)
		}, want: "replicas 1 now has 3"},
		{name: "a label that comes back just now", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			pod := s.pods(set, 1)[0]
			pod = s.User().Edit(pod, func(o Object) { o.SetLabels(nil) })
			s.User().Edit(pod, func(o Object) { o.SetLabels(map[string]string{"app": "web", hashLabel: "a"}) })
			s.pods(set, 1)
		}},
		{name: "a label that came back long ago", write: restored, want: "now has 2"},
		{name: "a label that came back before an outage", write: restored, options: Options{Outages: []Outage{blind("", "")}}},
		{name: "a label that came back before an outage of the manager, and of pods", write: restored,
			options: Options{Outages: []Outage{blind("manager", resources[Pod])}}},
		{name: "a label that came back before an outage of another manager", write: restored,
			options: Options{Outages: []Outage{blind("other", resources[Pod])}}, want: "now has 2"},
		{name: "a label that came back before an outage of other objects", write: restored,
			options: Options{Outages: []Outage{blind("manager", resources[Node])}}, want: "now has 2"},
		{name: "a label that came back before an outage that ended long ago", write: func(s *scene) {
			restored(s)
			set := s.Revisions[0].Object
			s.Manager().Terminate(s.Revisions[len(s.Revisions)-1].Object)
			s.Wait(time.Minute)
			s.pods(set, 1)
		}, options: Options{Outages: []Outage{blind("manager", resources[Pod])}}, want: "now has 2"},
		{name: "adopted pods may be too many", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.pods(set, 1)
			orphan := s.aPod(set)
			orphan.OwnerReferences = nil
			s.Manager().Edit(s.User().Create(orphan), func(o Object) { ownedBy(o, ReplicaSet, set) })
		}},
		{name: "a user's pods are not the manager's", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.pods(set, 1)
			s.User().Create(s.aPod(set))
		}},
	})
}

func tainted(effect corev1.TaintEffect) *corev1.Node {
	n := aNode()
	n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: effect}}
	return n
}

func TestNoDeletionOfNeededPods(t *testing.T) { // S2
	run(t, NoDeletionOfNeededPods(), []history{
		{name: "one that is needed", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.Manager().Terminate(s.pods(set, 2)[0])
		}, want: "has 2 active pods of 2"},
		{name: "twice from one sight", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			pods := s.pods(set, 3)
			set = s.User().Edit(set, size(2))
			s.Manager().Terminate(pods[0])
			s.Manager().Edit(set, observe)
			s.Manager().Terminate(pods[1])
		}, want: "has 2 active pods of 2"},
		{name: "scaled down and up again, and not observed", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			set = s.User().Edit(set, size(1))
			s.User().Edit(set, size(2))
			s.Manager().Terminate(pods[0])
		}},
		{name: "another failed a moment ago", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			pods := s.pods(set, 1)
			orphan := s.aPod(set)
			orphan.OwnerReferences = nil
			s.Manager().Edit(s.User().Create(orphan), func(o Object) { ownedBy(o, ReplicaSet, set) })
			s.User().Edit(pods[0], fail)
			s.Manager().Terminate(s.Revisions[3].Object)
		}},
		{name: "another failed long ago", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(pods[0], fail)
			s.Wait(time.Minute)
			s.Manager().Terminate(pods[1])
		}, want: "has 1 active pods of 2"},
		{name: "another failed a moment ago, and was replaced since", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(pods[0], fail)
			s.pods(set, 1)
			s.Manager().Terminate(pods[1])
		}, want: "has 2 active pods of 2"},
		{name: "another failed a moment ago, and one was created that was missing besides", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(pods[0], fail)
			set = s.User().Edit(set, size(3))
			s.pods(set, 1)
			s.User().Edit(set, size(2))
			s.Manager().Terminate(pods[1])
		}},
		{name: "another lost its label a moment ago, and has it again", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(s.User().Edit(pods[0], func(o Object) { o.SetLabels(nil) }), func(o Object) { o.SetLabels(pods[0].GetLabels()) })
			s.Manager().Terminate(pods[1])
		}, want: "has 2 active pods of 2"},
		{name: "one of a ReplicaSet that is gone, as the garbage collector does", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Delete(set)
			s.Manager().Terminate(pods[0])
		}},
		{name: "one on a node with a taint, as taint eviction does", write: func(s *scene) {
			pods := s.up(s.User().Create(aSet(nil, "a", 2)), 2)
			s.User().Create(tainted(corev1.TaintEffectNoExecute))
			s.Manager().Terminate(pods[0])
		}},
		{name: "one while another one is evicted", write: func(s *scene) { // simulation seed 20261128170900257
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.up(set, 2)
			s.User().Create(tainted(corev1.TaintEffectNoExecute))
			s.Manager().Terminate(pods[0])
			s.User().Edit(s.Revisions[len(s.Revisions)-2].Object, func(o Object) { o.(*corev1.Node).Spec.Taints = nil })
			s.User().Edit(set, size(1))
			s.Manager().Terminate(pods[1])
		}},
		{name: "one after another one was evicted", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.up(set, 2)
			s.User().Create(tainted(corev1.TaintEffectNoExecute))
			s.Manager().Terminate(pods[0])
			s.User().Edit(s.Revisions[len(s.Revisions)-2].Object, func(o Object) { o.(*corev1.Node).Spec.Taints = nil })
			s.Wait(time.Second)
			s.User().Edit(set, size(1))
			s.Manager().Terminate(pods[1])
		}, want: "has 1 active pods of 1"},
		{name: "one on a node with a taint that evicts nothing", write: func(s *scene) {
			pods := s.up(s.User().Create(aSet(nil, "a", 2)), 2)
			s.User().Create(tainted(corev1.TaintEffectNoSchedule))
			s.Manager().Terminate(pods[0])
		}, want: "has 2 active pods of 2"},
		{name: "a user's deletion", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.User().Terminate(s.pods(set, 2)[0])
		}},
		{name: "a finished pod", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.Podgc().Delete(s.User().Edit(s.pods(set, 2)[0], fail))
		}},
	})
}

func orphaned(o Object) { o.SetOwnerReferences(nil) }

func TestDeletionsHitTheirPod(t *testing.T) { // S3
	run(t, DeletionsHitTheirPod(), []history{
		{name: "no precondition", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.pods(set, 1)[0])
			s.Requests[len(s.Requests)-1].UID = ""
		}, want: "neither uid nor resourceVersion"},
		{name: "nobody's pod", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			p := s.aPod(set)
			p.OwnerReferences = nil
			s.Manager().Terminate(s.User().Create(p))
		}, want: "no controller owns it"},
		{name: "a pod that has just lost its controller", write: func(s *scene) { // simulation seed 7000111
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.User().Edit(s.pods(set, 1)[0], orphaned))
		}},
		{name: "a pod that has lost its controller long ago", write: func(s *scene) {
			p := s.User().Edit(s.pods(s.User().Create(aSet(nil, "a", 0)), 1)[0], orphaned)
			s.Wait(time.Minute)
			s.Manager().Terminate(p)
		}, want: "no controller owns it"},
		{name: "a pod that the manager itself has just released", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.Manager().Edit(s.pods(set, 1)[0], orphaned))
		}, want: "no controller owns it"},
		{name: "a pod that the garbage collector has just released", write: func(s *scene) { // simulation seed 362
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.collector().Edit(s.pods(set, 1)[0], orphaned))
		}},
		{name: "a pod that the garbage collector has released long ago", write: func(s *scene) {
			p := s.collector().Edit(s.pods(s.User().Create(aSet(nil, "a", 0)), 1)[0], orphaned)
			s.Wait(time.Minute)
			s.Manager().Terminate(p)
		}, want: "no controller owns it"},
		{name: "a pod of a controller that never was", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			p := s.aPod(set)
			p.OwnerReferences[0].UID = "none"
			s.Manager().Terminate(s.User().Create(p))
		}, want: "none that ever was"},
		{name: "a pod of a controller that never was, as the garbage collector has seen live", write: func(s *scene) {
			p := s.aPod(s.User().Create(aSet(nil, "a", 0)))
			p.OwnerReferences[0].UID = "none"
			pod := s.User().Create(p)
			s.Manager().In("shop").Ask("get", "replicasets", "web-a", 404)
			s.Manager().Terminate(pod)
		}},
		{name: "all pods of a namespace that ends", write: func(s *scene) {
			s.User().Terminate(s.User().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
			p := s.aPod(s.User().Create(aSet(nil, "a", 0)))
			p.OwnerReferences = nil
			s.Manager().Terminate(s.User().Create(p))
			s.Requests[len(s.Requests)-1].UID = ""
		}},
		{name: "a pod of a ReplicationController, and of a kind that is not recorded", write: func(s *scene) {
			rc := s.User().Create(&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}})
			set := s.User().Create(aSet(nil, "a", 0))
			for kind, uid := range map[string]types.UID{ReplicationController: rc.GetUID(), "CloneSet": "some"} {
				p := s.aPod(set)
				p.OwnerReferences[0].Kind, p.OwnerReferences[0].UID = kind, uid
				s.Manager().Terminate(s.User().Create(p))
			}
		}},
		{name: "as it should be, and podgc's of anybody's pod", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.pods(set, 1)[0])
			p := s.aPod(set)
			p.OwnerReferences = nil
			s.Podgc().Delete(s.User().Create(p))
		}},
	})
}

func TestOneLiveController(t *testing.T) { // S4
	start := NewScript().Now
	blind := Options{Outages: []Outage{Blackout(start, start.Add(time.Minute))}}
	orphan := func(s *scene, set Object) Object {
		p := s.aPod(set)
		p.OwnerReferences = nil
		return s.User().Create(p)
	}
	refused := Options{Outages: []Outage{{Interval{start, start.Add(time.Minute)}, "manager", resources[ControllerRevision]}}}
	late := func(s *scene) {
		d := s.User().Create(aDaemonSet(0, 1))
		s.User().Delete(d)
		s.Wait(55 * time.Second)
		s.Manager().Create(s.daemonPod(d, "n1"))
	}
	run(t, OneLiveController(), []history{
		{name: "adopted by one that never was", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := orphan(s, set)
			s.Manager().Edit(p, func(o Object) {
				ownedBy(o, ReplicaSet, set)
				o.GetOwnerReferences()[0].UID = "stale"
			})
		}, want: "never existed"},
		{name: "adopted by one that is being deleted for long", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := orphan(s, set)
			s.User().Terminate(set)
			s.Wait(time.Minute)
			s.Manager().Edit(p, func(o Object) { ownedBy(o, ReplicaSet, set) })
		}, want: "being deleted since"},
		{name: "created for one that is gone for long", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.User().Delete(set)
			s.Wait(time.Minute)
			s.pods(set, 1)
		}, want: "is gone since version 2"},
		{name: "created for a DaemonSet that is gone for long", write: late, want: "is gone since version"},
		{name: "created for a DaemonSet that went while its ControllerRevision was refused, which is no excuse", write: late,
			options: refused, want: "is gone since version"},
		{name: "an owner of another namespace", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := s.aPod(set)
			p.Namespace = "elsewhere"
			s.Manager().Create(p)
		}, want: "in truth shop/web-a"},
		{name: "a slice of a Service that is gone for long", write: func(s *scene) {
			service := s.User().Create(aService())
			s.User().Delete(service)
			s.Wait(time.Minute)
			slice := aSlice("web-1", sliceController)
			ownedBy(slice, Service, service)
			s.Manager().Create(slice)
		}, want: "is gone since version 2"},
		{name: "slices of a Service and of Endpoints", write: func(s *scene) {
			for kind, owner := range map[string]Object{Service: s.User().Create(aService()), Endpoints: s.User().Create(someEndpoints())} {
				slice := aSlice("web-"+kind, sliceController)
				ownedBy(slice, kind, owner)
				s.Manager().Create(slice)
			}
		}},
		{name: "a Job with two controllers", write: func(s *scene) {
			job, other := aJob(1), s.User().Create(aSet(nil, "a", 1))
			ownedBy(job, ReplicaSet, other)
			job.OwnerReferences = append(job.OwnerReferences, job.OwnerReferences[0])
			s.User().Create(job)
		}, want: "2 controllers"},
		{name: "two controllers", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := s.aPod(set)
			p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0])
			s.Manager().Create(p)
		}, want: "2 controllers"},
		{name: "adopted by one that is gone for long, which a live look would have shown", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			orphan := s.User().Create(quarantined(s, set))
			s.User().Delete(set)
			s.Wait(50 * time.Second)
			adopt(s, orphan, set)
		}, options: blind, want: "is gone since"},
		{name: "created for one that is gone for long, which the cache did not show", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.User().Delete(set)
			s.Wait(50 * time.Second)
			s.pods(set, 1)
		}, options: blind},
		{name: "adopted, created, and adopted when the owner has just been deleted", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			set := s.User().Create(aSet(nil, "a", 1))
			set = s.Manager().Edit(set, func(o Object) { ownedBy(o, Deployment, d) })
			s.pods(set, 1)
			p := orphan(s, set)
			s.User().Terminate(set)
			s.Manager().Edit(p, func(o Object) { ownedBy(o, ReplicaSet, set) })
		}},
	})
}
