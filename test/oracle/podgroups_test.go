package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodGroupsStayWhileTheirPodsRun(t *testing.T) { // S41
	const runs = "which is there since"
	group := func(s *scene) Object {
		return s.User().Create(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gang",
			Finalizers: []string{podGroupFinalizer, "x"}}})
	}
	pod := func(s *scene, name, group string, phase corev1.PodPhase) Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: phase}}
		if group != "" {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		}
		return s.User().Create(p)
	}
	release := func(o Object) { o.SetFinalizers([]string{"x"}) }
	// goes deletes the PodGroup after a while, and then takes its finalizer off.
	goes := func(s *scene, g Object) {
		s.Wait(time.Minute)
		s.Manager().Edit(s.User().Terminate(g), release)
	}
	run(t, PodGroupsStayWhileTheirPodsRun(), []history{
		{name: "PGP-3 no pod is in it", write: func(s *scene) {
			pod(s, "a", "", corev1.PodRunning)
			pod(s, "b", "other", corev1.PodRunning)
			goes(s, group(s))
		}},
		{name: "PGP-3 a pod of it runs", write: func(s *scene) {
			pod(s, "a", "gang", corev1.PodRunning)
			goes(s, group(s))
		}, want: runs},
		{name: "PGP-3 a pod of it waits for a node", write: func(s *scene) {
			pod(s, "a", "gang", corev1.PodPending)
			goes(s, group(s))
		}, want: runs},
		{name: "PGP-3 a pod of it is being deleted", write: func(s *scene) {
			s.User().Terminate(pod(s, "a", "gang", corev1.PodRunning))
			goes(s, group(s))
		}, want: runs},
		{name: "PGP-3 its pods have ended", write: func(s *scene) {
			pod(s, "a", "gang", corev1.PodSucceeded)
			pod(s, "b", "gang", corev1.PodFailed)
			goes(s, group(s))
		}},
		{name: "its pod is gone", write: func(s *scene) {
			s.User().Delete(pod(s, "a", "gang", corev1.PodRunning))
			goes(s, group(s))
		}},
		{name: "a pod that was created just now", write: func(s *scene) {
			g := group(s)
			s.Wait(time.Minute)
			doomed := s.User().Terminate(g)
			pod(s, "a", "gang", corev1.PodPending)
			s.Manager().Edit(doomed, release)
		}},
		{name: "one that nobody deletes", write: func(s *scene) {
			s.Manager().Edit(group(s), release)
		}, want: "is not being deleted"},
		{name: "a user takes it off", write: func(s *scene) {
			pod(s, "a", "gang", corev1.PodRunning)
			s.Wait(time.Minute)
			s.User().Edit(s.User().Terminate(group(s)), release)
		}},
	})
}
