package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// refusedSet is a ReplicaSet without its pod that says that it could not be created.
func refusedSet(s *scene) {
	s.Manager().Edit(s.User().Create(aSet(nil, "a", 1)), all(observe, func(o Object) {
		o.(*appsv1.ReplicaSet).Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure,
			Status: corev1.ConditionTrue}}
	}))
}

// timedOut is a Deployment without a ReplicaSet that says that it got no further.
func timedOut(s *scene) {
	s.Manager().Edit(s.User().Create(aDeployment(0)), all(observe, says("True", "False", "ProgressDeadlineExceeded", s.Now)))
}

// ending is a paused Deployment of one pod, whose ReplicaSet stays for a finalizer, and whose status has so many pods.
func ending(s *scene, n int32) {
	d, set, _ := settledScene(s)
	s.User().Terminate(set)
	d = s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
	available := corev1.ConditionTrue
	if n == 0 {
		available = corev1.ConditionFalse
	}
	s.Manager().Edit(d, all(status(n, n, n), says(available, "True", "NewReplicaSetAvailable", s.Now)))
}

func TestEndsAtAFixpoint(t *testing.T) { // L1
	settled := Options{Settled: true}
	run(t, EndsAtAFixpoint(), []history{
		{name: "at rest", write: func(s *scene) { settledScene(s) }, options: settled},
		{name: "not said to be settled", write: func(s *scene) { s.User().Create(aSet(nil, "a", 1)) }},
		{name: "a pod is missing", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aSet(nil, "a", 1)), observe)
		}, options: settled, want: "0 active pods of 1"},
		{name: "a pod is missing, and the set says why", write: refusedSet, options: settled},
		{name: "a pod is missing for a reason that is over", write: refusedSet, options: Options{Settled: true, Unhindered: true},
			want: "given up"},
		{name: "the set's status lies", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.up(set, 1)
			s.User().Edit(set, status(1, 1, 0))
		}, options: settled, want: "status has"},
		{name: "the Deployment's status lies", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.User().Edit(d, status(2, 2, 2))
		}, options: settled, want: "and its ReplicaSets"},
		{name: "generation not observed", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.User().Edit(d, image("b"))
		}, options: settled, want: "generation 1 of 2 observed"},
		{name: "a rollout that could go on", write: func(s *scene) {
			d, _, _ := settledScene(s)
			d = s.User().Edit(d, image("b"))
			b := s.Manager().Create(aSet(d, "b", 1))
			pod := s.up(b, 1)[0]
			s.Manager().Edit(b, status(1, 1, 1))
			s.Manager().Edit(d, all(status(2, 2, 2), func(o Object) { o.(*appsv1.Deployment).Status.UpdatedReplicas = 1 }))
			s.Manager().Edit(s.Revisions[6].Object, func(o Object) {
				*o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(s.Revisions[4].Object, pod))
			})
		}, options: settled, want: "could be lowered"},
		{name: "a rollout that is stuck", write: func(s *scene) {
			d, _, _ := settledScene(s)
			d = s.User().Edit(d, image("b"))
			b := s.Manager().Create(aSet(d, "b", 1))
			s.pods(b, 1)
			s.Manager().Edit(b, status(1, 0, 0))
			s.Manager().Edit(d, all(status(2, 1, 1), func(o Object) {
				o.(*appsv1.Deployment).Status.UpdatedReplicas, o.(*appsv1.Deployment).Status.UnavailableReplicas = 1, 1
			}))
		}, options: settled},
		{name: "paused, with shares of what was asked for before", write: func(s *scene) {
			d, set, pod := settledScene(s)
			s.Manager().Edit(set, annotate(desiredAnnotation, "1"))
			b := aSet(d, "b", 1)
			annotate(desiredAnnotation, "2")(b)
			rs := s.Manager().Create(b)
			second := s.up(rs, 1)[0]
			s.Manager().Edit(rs, status(1, 1, 1))
			d = s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
			s.Manager().Edit(d, all(status(2, 2, 2), func(o Object) { o.(*appsv1.Deployment).Status.UpdatedReplicas = 1 }))
			s.Manager().Edit(s.Revisions[6].Object, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(pod, second)) })
		}, options: settled, want: "web-b has a share of another number"},
		{name: "paused under Recreate, with two active sets (DEP-39)", write: func(s *scene) {
			d, _, pod := settledScene(s)
			rs := s.Manager().Create(aSet(d, "b", 1))
			second := s.up(rs, 1)[0]
			s.Manager().Edit(rs, status(1, 1, 1))
			d = s.User().Edit(d, func(o Object) { recreate(o.(*appsv1.Deployment)).Spec.Paused = true })
			s.Manager().Edit(d, all(status(2, 2, 2), func(o Object) { o.(*appsv1.Deployment).Status.UpdatedReplicas = 1 }))
			s.Manager().Edit(s.Revisions[6].Object, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(pod, second)) })
		}, options: settled},
		{name: "a missing ReplicaSet", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aDeployment(0)), all(observe, says("True", "True", "x", s.Now)))
		}, options: settled, want: "no ReplicaSet has the present template"},
		{name: "a missing ReplicaSet, and the Deployment says why", write: func(s *scene) { timedOut(s) }, options: settled},
		{name: "a missing ReplicaSet for a reason that is over", write: func(s *scene) { timedOut(s) },
			options: Options{Settled: true, Unhindered: true}, want: "no ReplicaSet has the present template"},
		{name: "a status that counts a ReplicaSet which is being deleted", write: func(s *scene) { ending(s, 1) }, options: settled},
		{name: "a status that does not count a ReplicaSet which is being deleted", write: func(s *scene) { ending(s, 0) },
			options: settled},
		{name: "a status that counts more than a ReplicaSet which is being deleted", write: func(s *scene) { ending(s, 2) },
			options: settled, want: "its ReplicaSets"},
		{name: "Endpoints that lack a pod", write: func(s *scene) {
			_, set, _ := settledScene(s)
			_ = set
			s.User().Edit(s.Revisions[6].Object, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
		}, options: settled, want: "1 differences: expected"},
		{name: "Endpoints without a Service", write: func(s *scene) { s.User().Create(someEndpoints()) }, options: settled,
			want: "left over"},
		{name: "a Service without Endpoints", write: func(s *scene) { s.User().Create(aService()) }, options: settled,
			want: "no Endpoints"},
		{name: "an orphan", write: func(s *scene) {
			set := s.Manager().Edit(s.User().Create(aSet(nil, "a", 0)), observe)
			p := s.aPod(set)
			p.OwnerReferences = nil
			s.User().Create(p)
		}, options: settled, want: "an orphan that web-a selects"},
	})
}

func TestDeploymentsComplete(t *testing.T) { // L3
	settled := Options{Settled: true}
	stuck := func(reason string, st corev1.ConditionStatus, wait time.Duration) func(*scene) {
		return func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.pods(s.Manager().Create(aSet(d, "a", 1)), 1)
			s.Manager().Edit(d, all(status(1, 0, 0), says("False", st, reason, s.Now)))
			s.Wait(wait)
			s.User().Create(aNode())
		}
	}
	run(t, DeploymentsComplete(), []history{
		{name: "complete", write: func(s *scene) { settledScene(s) }, options: settled},
		{name: "complete, and says something else", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Manager().Edit(d, says("True", "True", "ReplicaSetUpdated", s.Now))
		}, options: settled, want: "complete, and does not say so"},
		{name: "timed out", write: stuck("ProgressDeadlineExceeded", "False", time.Hour), options: settled},
		{name: "within the deadline", write: stuck("ReplicaSetUpdated", "True", time.Minute), options: settled},
		{name: "beyond the deadline", write: stuck("ReplicaSetUpdated", "True", time.Hour), options: settled,
			want: "its deadline has passed"},
		{name: "done, and has lost pods since (DEP-75)", write: stuck("NewReplicaSetAvailable", "True", time.Hour), options: settled},
		{name: "says that the rollout is done, in the middle of one", write: func(s *scene) {
			d, _, _ := settledScene(s)
			d = s.User().Edit(d, image("b"))
			s.pods(s.Manager().Create(aSet(d, "b", 1)), 1)
			s.Manager().Edit(d, observe)
		}, options: settled, want: "it says that the rollout is done"},
		{name: "paused", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
		}, options: settled},
		{name: "ReplicaFailure that no set has", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Manager().Edit(d, func(o Object) {
				o.(*appsv1.Deployment).Status.Conditions = append(o.(*appsv1.Deployment).Status.Conditions,
					appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: "True"})
			})
		}, options: settled, want: "no ReplicaSet does"},
	})
}
