package oracle

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// aStatefulSet has ordered pods and rolling updates.
func aStatefulSet(replicas int32, edits ...func(*appsv1.StatefulSetSpec)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: named("db"), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Template: podTemplate("a"), PodManagementPolicy: appsv1.OrderedReadyPodManagement,
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
	}}
	for _, edit := range edits {
		edit(&set.Spec)
	}
	return set
}

func inParallel(s *appsv1.StatefulSetSpec) { s.PodManagementPolicy = appsv1.ParallelPodManagement }

func recreates(s *appsv1.StatefulSetSpec) {
	s.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
}

func withPartition(n int32) func(*appsv1.StatefulSetSpec) {
	return func(s *appsv1.StatefulSetSpec) {
		s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
	}
}

func upTo(unavailable int) func(*appsv1.StatefulSetSpec) {
	return func(s *appsv1.StatefulSetSpec) {
		s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: pointer(
			intstr.FromInt32(int32(unavailable)))}
	}
}

// respec is an edit of a StatefulSet's spec.
func respec(edits ...func(*appsv1.StatefulSetSpec)) func(Object) {
	return func(o Object) {
		for _, edit := range edits {
			edit(&o.(*appsv1.StatefulSet).Spec)
		}
	}
}

func toImage(image string) func(*appsv1.StatefulSetSpec) {
	return func(s *appsv1.StatefulSetSpec) { s.Template = podTemplate(image) }
}

func toReplicas(n int32) func(*appsv1.StatefulSetSpec) {
	return func(s *appsv1.StatefulSetSpec) { s.Replicas = &n }
}

// member is a new pod of a StatefulSet, as the manager makes it.
func (s *scene) member(set Object, ordinal int) Object {
	return s.memberNamed(set, fmt.Sprintf("%s-%d", set.GetName(), ordinal))
}

func (s *scene) memberNamed(set Object, name string) Object {
	p := &corev1.Pod{ObjectMeta: named(name), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	p.Labels[appsv1.StatefulSetRevisionLabel] = "db-" + set.(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].Image
	ownedBy(p, StatefulSet, set)
	return s.Manager().Create(p)
}

// stateful is a StatefulSet whose pods are all ready and known, a while later.
func (s *scene) stateful(replicas int32, edits ...func(*appsv1.StatefulSetSpec)) (set Object, pods []Object) {
	set = s.User().Create(aStatefulSet(replicas, edits...))
	for i := range int(replicas) {
		pods = append(pods, s.User().Edit(s.member(set, i), s.run))
	}
	set = s.reported(set)
	s.Wait(time.Minute)
	return set, pods
}

// reported is the status of the present generation.
func (s *scene) reported(set Object) Object {
	return s.Manager().Edit(set, func(o Object) {
		set := o.(*appsv1.StatefulSet)
		set.Status.ObservedGeneration = set.Generation
		set.Status.UpdateRevision = "db-" + set.Spec.Template.Spec.Containers[0].Image
	})
}

// changed is a StatefulSet whose spec has changed, which the manager has reported a while ago.
func (s *scene) changed(set Object, edits ...func(*appsv1.StatefulSetSpec)) Object {
	set = s.reported(s.User().Edit(set, respec(edits...)))
	s.Wait(time.Minute)
	return set
}

func TestStatefulSetsKeepOrder(t *testing.T) { // S22
	run(t, StatefulSetsKeepOrder(), []history{
		{name: "ordered pods", write: func(s *scene) { s.stateful(3) }},
		{name: "created while a lower one is not ready", want: "created while the pod with the ordinal 0 is not ready",
			write: func(s *scene) {
				set := s.User().Create(aStatefulSet(2))
				s.member(set, 0)
				s.member(set, 1)
			}},
		{name: "parallel pods do not wait", write: func(s *scene) {
			set := s.User().Create(aStatefulSet(2, inParallel))
			s.member(set, 0)
			s.member(set, 1)
		}},
		{name: "a lower one was ready a moment ago", write: func(s *scene) {
			set, pods := s.stateful(2)
			set = s.User().Edit(set, respec(toReplicas(3)))
			s.User().Edit(pods[0], unready)
			s.member(set, 2)
		}},
		{name: "beyond the replicas", want: "created, and wanted are the ordinals from 0 to 0", write: func(s *scene) {
			set, _ := s.stateful(1)
			s.member(set, 1)
		}},
		{name: "beyond the replicas of a moment ago", write: func(s *scene) {
			set, pods := s.stateful(2)
			s.User().Delete(pods[1])
			s.User().Edit(set, respec(toReplicas(1)))
			s.member(set, 1)
		}},
		{name: "two pods of an identity", want: "created beside db-1, which has the same ordinal", write: func(s *scene) {
			set, _ := s.stateful(2)
			s.memberNamed(set, "db-01")
		}},
		{name: "scaled down from the top", write: func(s *scene) {
			set, pods := s.stateful(3)
			s.changed(set, toReplicas(1))
			s.User().Delete(s.Manager().Terminate(pods[2]))
			s.Manager().Terminate(pods[1])
		}},
		{name: "scaled down before the higher one is gone", want: "deleted while db-2, which is too many as well, is there",
			write: func(s *scene) {
				set, pods := s.stateful(3)
				s.changed(set, toReplicas(1))
				s.Manager().Terminate(pods[2])
				s.Manager().Terminate(pods[1])
			}},
		{name: "updated from the top", write: func(s *scene) {
			set, pods := s.stateful(2)
			set = s.changed(set, toImage("b"))
			s.User().Delete(s.Manager().Terminate(pods[1]))
			s.User().Edit(s.member(set, 1), s.run)
			s.Manager().Terminate(pods[0])
		}},
		{name: "updated before the higher one is ready", want: "deleted while the pod with the ordinal 1 is not ready",
			write: func(s *scene) {
				set, pods := s.stateful(2)
				s.changed(set, toImage("b"))
				s.User().Delete(s.Manager().Terminate(pods[1]))
				s.Manager().Terminate(pods[0])
			}},
		{name: "updated below the partition", want: "deleted below the partition 2", write: func(s *scene) {
			set, pods := s.stateful(2, withPartition(2))
			s.changed(set, toImage("b"))
			s.Manager().Terminate(pods[1])
		}},
		{name: "STS-58 as many as may be unavailable are updated at once", write: func(s *scene) {
			set, pods := s.stateful(4, inParallel, upTo(2))
			s.changed(set, toImage("b"))
			s.Manager().Terminate(pods[3])
			s.Manager().Terminate(pods[2])
		}},
		{name: "STS-58 one more", want: "deleted while the pod with the ordinal", write: func(s *scene) {
			set, pods := s.stateful(4, inParallel, upTo(2))
			s.changed(set, toImage("b"))
			s.Manager().Terminate(pods[3])
			s.Manager().Terminate(pods[2])
			s.Manager().Terminate(pods[1])
		}},
		{name: "MEND-5 a pod below the partition is not ready", write: func(s *scene) {
			set, pods := s.stateful(4, inParallel, withPartition(2))
			s.User().Edit(pods[0], unready)
			s.changed(set, toImage("b"))
			s.Manager().Terminate(pods[3])
		}},
		{name: "MEND-5 one above the partition is not", want: "deleted while the pod with the ordinal 2 is not ready",
			write: func(s *scene) {
				set, pods := s.stateful(4, inParallel, withPartition(2))
				s.User().Edit(pods[2], unready)
				s.changed(set, toImage("b"))
				s.Manager().Terminate(pods[3])
			}},
		{name: "STS-76 all pods are recreated at once", write: func(s *scene) {
			set, pods := s.stateful(3, recreates)
			set = s.changed(set, toImage("b"), toReplicas(1))
			for _, p := range pods {
				s.User().Delete(s.Manager().Terminate(p))
			}
			s.member(set, 0)
		}},
		{name: "STS-76 while an old one is left", want: "created beside db-1, which has the revision db-a", write: func(s *scene) {
			set, pods := s.stateful(2, recreates, inParallel)
			set = s.changed(set, toImage("b"))
			s.User().Delete(s.Manager().Terminate(pods[0]))
			s.Manager().Terminate(pods[1])
			s.member(set, 0)
		}},
		{name: "STS-76 one that is up to date", want: "deleted, though it is wanted and up to date", write: func(s *scene) {
			_, pods := s.stateful(2, recreates)
			s.Manager().Terminate(pods[1])
		}},
		{name: "updated on deletion", want: "pods are updated on deletion", write: func(s *scene) {
			set, pods := s.stateful(1, func(s *appsv1.StatefulSetSpec) { s.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType })
			s.changed(set, toImage("b"))
			s.Manager().Terminate(pods[0])
		}},
		{name: "deleted though it is up to date", want: "deleted, though it is wanted and up to date", write: func(s *scene) {
			_, pods := s.stateful(1)
			s.Manager().Terminate(pods[0])
		}},
		{name: "replaced because it has failed", write: func(s *scene) {
			_, pods := s.stateful(2)
			s.Manager().Terminate(s.User().Edit(pods[0], fail))
		}},
		{name: "a user deletes what he likes", write: func(s *scene) {
			_, pods := s.stateful(2)
			s.User().Terminate(pods[0])
		}},
	})
}

// aClaim is a claim with an owner, or with none.
func aClaim(kind string, owner Object) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: named("data-db-0")}
	if owner != nil {
		ownedBy(c, kind, owner)
	}
	return c
}

func retains(scaled, deleted appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSetSpec) {
	return func(s *appsv1.StatefulSetSpec) {
		s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: scaled,
			WhenDeleted: deleted}
	}
}

func TestClaimsFollowRetention(t *testing.T) { // S23
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	gets := func(kind string, owner Object) func(Object) {
		return func(o Object) { ownedBy(o, kind, owner) }
	}
	run(t, ClaimsFollowRetention(), []history{
		{name: "nobody owns it", write: func(s *scene) { s.stateful(1); s.Manager().Create(aClaim("", nil)) }},
		{name: "it goes with the set", write: func(s *scene) {
			set, _ := s.stateful(1, retains(keep, drop))
			s.Manager().Create(aClaim(StatefulSet, set))
		}},
		{name: "it goes with the set against the policy", want: "got StatefulSet db as its owner", write: func(s *scene) {
			set, _ := s.stateful(1, retains(drop, keep))
			s.Manager().Create(aClaim(StatefulSet, set))
		}},
		{name: "it goes with the set, by a policy of a moment ago", write: func(s *scene) {
			set, _ := s.stateful(1, retains(keep, drop))
			c := s.Manager().Create(aClaim("", nil))
			s.User().Edit(set, respec(retains(keep, keep)))
			s.Manager().Edit(c, gets(StatefulSet, set))
		}},
		{name: "it goes with the pod", write: func(s *scene) {
			_, pods := s.stateful(1, retains(drop, keep))
			s.Manager().Edit(s.Manager().Create(aClaim("", nil)), gets(Pod, pods[0]))
		}},
		{name: "it goes with the pod against the policy", want: "got Pod db-0 as its owner", write: func(s *scene) {
			_, pods := s.stateful(1, retains(keep, drop))
			s.Manager().Edit(s.Manager().Create(aClaim("", nil)), gets(Pod, pods[0]))
		}},
		{name: "a user makes another owner", write: func(s *scene) {
			set, _ := s.stateful(1)
			s.User().Edit(s.Manager().Create(aClaim("", nil)), gets(StatefulSet, set))
		}},
		{name: "it is deleted", want: "a manager has deleted a claim", write: func(s *scene) {
			s.stateful(1)
			s.Manager().Account("statefulset-controller").Delete(s.Manager().Create(aClaim("", nil)))
		}},
		{name: "the garbage collector deletes it", write: func(s *scene) {
			c := aClaim("", nil)
			c.OwnerReferences = []metav1.OwnerReference{{Kind: StatefulSet, Name: "gone", UID: types.UID("gone")}}
			s.Manager().Account("generic-garbage-collector").Delete(s.User().Create(c))
		}},
	})
}
