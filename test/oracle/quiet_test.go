package oracle

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settledScene is a Deployment of one pod, with a Service, all at rest.
func settledScene(s *scene) (d, set, pod Object) {
	d = s.User().Create(aDeployment(1))
	s.User().Create(aService())
	set = s.Manager().Create(aSet(d, "a", 1))
	pod = s.up(set, 1)[0]
	set = s.Manager().Edit(set, status(1, 1, 1))
	s.Manager().Create(someEndpoints(pod))
	d = s.Manager().Edit(d, all(status(1, 1, 1), annotate(revisionAnnotation, "1"), says("True", "True", "NewReplicaSetAvailable", s.Now)))
	return d, set, pod
}

// jobAtRest is a Job whose status is written though nothing has happened for a while.
func jobAtRest(ended bool) func(*scene) {
	return func(s *scene) {
		j := s.User().Create(aJob(1))
		if ended {
			j = s.User().Edit(j, func(o Object) {
				o.(*batchv1.Job).Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			})
		}
		s.Wait(3 * time.Minute)
		s.Manager().Edit(j, func(o Object) { o.(*batchv1.Job).Status.Active++ })
	}
}

// quotaAtRest is one whose status is written likewise.
func quotaAtRest(name corev1.ResourceName) func(*scene) {
	return func(s *scene) {
		q := s.User().Create(&corev1.ResourceQuota{ObjectMeta: named("some"),
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse("5")}}})
		s.Wait(3 * time.Minute)
		s.Manager().Edit(q, func(o Object) {
			o.(*corev1.ResourceQuota).Status.Used = corev1.ResourceList{name: resource.MustParse("1")}
		})
	}
}

// mapAtRest is a ConfigMap whose data is written likewise.
func mapAtRest(name string) func(*scene) {
	return func(s *scene) {
		m := s.User().Create(&corev1.ConfigMap{ObjectMeta: named(name)})
		s.Wait(3 * time.Minute)
		s.Manager().Edit(m, func(o Object) { o.(*corev1.ConfigMap).Data = map[string]string{"x": "y"} })
	}
}

// detachedAtRest is a VolumeAttachment that is deleted likewise, of a node with a condition.
func detachedAtRest(ready corev1.ConditionStatus) func(*scene) {
	return func(s *scene) {
		s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}})
		a := s.User().Create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"}})
		s.Wait(7 * time.Minute)
		s.Manager().Delete(a)
	}
}

// attachedAtRest is a VolumeAttachment that is created likewise, of a volume that a node with a condition has in use.
func attachedAtRest(ready corev1.ConditionStatus, inUse string) func(*scene) {
	return func(s *scene) {
		s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Status: corev1.NodeStatus{
			Conditions:   []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			VolumesInUse: []corev1.UniqueVolumeName{corev1.UniqueVolumeName(inUse)},
		}})
		s.Wait(7 * time.Minute)
		s.Manager().Create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName("kubernetes.io/csi/d^v", "n")},
			Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"}})
	}
}

func TestQuietAtRest(t *testing.T) { // S14
	run(t, QuietAtRest(), []history{
		{name: "writes at rest", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Wait(2 * time.Minute)
			s.Manager().Edit(d, annotate("x", "y"))
		}, want: "written though it was settled"},
		{name: "pods at rest", write: func(s *scene) {
			_, set, _ := settledScene(s)
			s.Wait(2 * time.Minute)
			s.Manager().Create(s.aPod(set))
		}, want: "written though it was settled"},
		{name: "a ReplicaSet at rest", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Wait(2 * time.Minute)
			s.Manager().Create(aSet(d, "b", 0))
		}, want: "written though it was settled"},
		{name: "an object of another kind at rest", write: func(s *scene) {
			set := s.User().Create(aStatefulSet(1))
			s.Wait(3 * time.Minute)
			s.Manager().Edit(set, func(o Object) { o.SetAnnotations(map[string]string{"x": "y"}) })
		}, want: "written though it was settled"},
		// simulation seed 21142
		{name: "a DaemonSet follows a node that a user has tainted, and then marked unschedulable", write: func(s *scene) {
			node, set := s.User().Create(aNode()), s.User().Create(aDaemonSet(0, 1))
			for _, change := range []func(*corev1.Node){
				func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
				},
				func(n *corev1.Node) { n.Spec.Unschedulable = true },
				func(n *corev1.Node) { n.Labels = map[string]string{"disk": "ssd"} },
			} {
				s.Wait(3 * time.Minute)
				node = s.User().Edit(node, func(o Object) { change(o.(*corev1.Node)) })
				s.Wait(time.Second)
				set = s.Manager().Edit(set, func(o Object) { o.(*appsv1.DaemonSet).Status.DesiredNumberScheduled++ })
			}
		}},
		{name: "a heartbeat of a node is no reason to write", write: func(s *scene) {
			node, set := s.User().Create(aNode()), s.User().Create(aDaemonSet(0, 1))
			s.Wait(3 * time.Minute)
			s.User().Edit(node, func(o Object) { o.(*corev1.Node).Status.NodeInfo.KernelVersion = "6.12" })
			s.Wait(time.Second)
			s.Manager().Edit(set, func(o Object) { o.(*appsv1.DaemonSet).Status.DesiredNumberScheduled++ })
		}, want: "written though it was settled"},
		{name: "a node that uses a volume no more is", write: func(s *scene) {
			node := s.User().Create(aNode())
			s.User().Edit(node, func(o Object) { o.(*corev1.Node).Status.VolumesInUse = []corev1.UniqueVolumeName{"v"} })
			s.Wait(3 * time.Minute)
			s.User().Edit(node, func(o Object) { o.(*corev1.Node).Status.VolumesInUse = nil })
			s.Wait(time.Second)
			s.Manager().Edit(node, func(o Object) { o.(*corev1.Node).Status.VolumesAttached = []corev1.AttachedVolume{{Name: "w"}} })
		}},
		{name: "what was refused is tried again", write: func(s *scene) {
			set := s.User().Create(aStatefulSet(1))
			s.Wait(3 * time.Minute)
			s.Manager().Ask("create", "pods", "db-0", 403)
			s.Wait(time.Minute)
			s.member(set, 0)
		}},
		{name: "a Job begins by its schedule, and its pod after it", write: func(s *scene) {
			s.User().Create(aStatefulSet(0))
			s.Wait(3 * time.Minute)
			s.aPodOf(s.Manager().Create(aJob(1)), -1)
		}},
		{name: "a Job that has not ended goes on by the clock", write: jobAtRest(false)},
		{name: "a Job that has ended is written", write: jobAtRest(true), want: "written though it was settled"},
		{name: "a quota of pods is lowered when their graces are over", write: quotaAtRest(corev1.ResourcePods)},
		{name: "a quota of kinds that are seen is written", write: quotaAtRest(corev1.ResourceConfigMaps),
			want: "written though it was settled"},
		{name: "authorities are published when a file has changed", write: mapAtRest("kube-root-ca.crt")},
		{name: "a ConfigMap of nobody is written", write: mapAtRest("settings"), want: "written though it was settled"},
		{name: "a volume is detached by force after a time", write: detachedAtRest(corev1.ConditionUnknown)},
		// seed 20261128191901218
		{name: "a volume is attached that a lost node had in use", write: attachedAtRest(corev1.ConditionUnknown, "kubernetes.io/csi/d^v")},
		{name: "a volume is attached that a node has in use which is ready",
			write: attachedAtRest(corev1.ConditionTrue, "kubernetes.io/csi/d^v"),
			want:  "written though it was settled"},
		{name: "a volume is attached while a lost node had another one in use",
			write: attachedAtRest(corev1.ConditionUnknown, "kubernetes.io/csi/d^w"),
			want:  "written though it was settled"},
		{name: "a volume of a node that is ready is detached", write: detachedAtRest(corev1.ConditionTrue),
			want: "written though it was settled"},
		{name: "a ReplicaSet in place of one that was removed, late", write: func(s *scene) {
			d, set, pod := settledScene(s)
			s.User().Delete(set)
			s.User().Delete(pod)
			s.Wait(2 * time.Minute)
			s.Manager().Create(aSet(d, "a", 1))
		}},
		{name: "a pod that was refused is made, late", write: func(s *scene) {
			refusedSet(s)
			s.Wait(2 * time.Minute)
			s.Manager().Create(s.aPod(s.Revisions[0].Object))
		}},
		{name: "an orphan is adopted, late", write: func(s *scene) {
			d, set, _ := settledScene(s)
			set = s.User().Edit(set, orphaned)
			s.Wait(2 * time.Minute)
			s.Manager().Edit(set, func(o Object) { ownedBy(o, Deployment, d) })
		}},
		{name: "an update without a change", write: func(s *scene) {
			_, set, _ := settledScene(s)
			s.Requests = append(s.Requests,
				Request{User: "system:kube-controller-manager", Verb: "update", Resource: "replicasets", Subresource: "status",
					Name: set.GetName(), Code: 200, Version: 6, Received: s.Now.Add(time.Second)})
		}, want: "changed nothing"},
		{name: "an update that is repeated, as the first one was not answered", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(set, observe)
			s.Requests = append(s.Requests, s.Requests[len(s.Requests)-1])
		}, options: Options{Outages: []Outage{Blackout(NewScript().Now, NewScript().Now.Add(time.Minute))}}},
		{name: "an update that is repeated", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(set, observe)
			s.Requests = append(s.Requests, s.Requests[len(s.Requests)-1])
		}, want: "changed nothing"},
		{name: "a finalizer is taken off a pod whose deletion was forced before", write: func(s *scene) { // simulation seed 534
			p := s.User().Edit(s.pods(s.User().Create(aSet(nil, "a", 1)), 1)[0], finalizers("example.com/kept"))
			p = s.Manager().Terminate(p)
			s.Podgc().Ask("delete", "pods", p.GetName(), 200)
			forced := &s.Requests[len(s.Requests)-1]
			forced.ResponseUID, forced.Version = p.GetUID(), 3
			s.Manager().Release(p)
		}},
		{name: "a finalizer is taken off that another has taken off, and then the last one", write: func(s *scene) { // simulation seed 387
			p := s.User().Edit(s.pods(s.User().Create(aSet(nil, "a", 1)), 1)[0], finalizers("example.com/kept"))
			p = s.Manager().Terminate(p)
			s.Requests = append(s.Requests,
				Request{User: "system:kube-controller-manager", Verb: "update", Resource: "pods", Subresource: "status",
					Name: p.GetName(), Code: 200, Version: s.Revisions[len(s.Revisions)-2].Version, Received: s.Now.Add(time.Minute),
					Done: s.Now.Add(time.Minute)})
			s.Wait(time.Minute + time.Second)
			s.Manager().Release(p)
		}, want: "update of pods/web-a-1/status"},
		{name: "an update of what another has written", write: func(s *scene) {
			s.User().Create(aSet(nil, "a", 1))
			s.Requests = []Request{{User: "system:kube-controller-manager", Verb: "patch", Resource: "replicasets", Name: "web-a",
				Code: 200, Version: 1,
				Received: s.Now.Add(time.Minute)}}
		}, want: "changed nothing"},
		{name: "an update of what another has just written", write: func(s *scene) {
			s.User().Create(aSet(nil, "a", 1))
			s.Requests = []Request{{User: "system:kube-controller-manager", Verb: "patch", Resource: "replicasets", Name: "web-a",
				Code: 200, Version: 1,
				Received: s.Now.Add(time.Millisecond)}}
		}},
		{name: "soon after a change, long after one that is not settled, and the lease", write: func(s *scene) {
			lease := s.Manager().Create(aLease("x"))
			d, set, _ := settledScene(s)
			s.Wait(30 * time.Second)
			d = s.Manager().Edit(d, annotate("x", "y"))
			s.User().Edit(d, size(2))
			s.Wait(5 * time.Minute)
			s.Manager().Edit(set, size(2))
			s.Manager().Edit(lease, holds("x"))
		}},
	})
}
