package plantest

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Epoch is when the objects of builders came into being.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Namespace is where the objects of builders live.
const Namespace = "shop"

// Never is the label of pods that the toy kubelet never makes ready.
const Never = "never-ready"

// Deployment builds a Deployment as a server would default it. Its uid is "uid-" and its name, its generation 1.
func Deployment(name string, replicas int32, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	quarter := intstr.FromString("25%")
	d := &appsv1.Deployment{
		ObjectMeta: meta(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: Template(name, "v1"),
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: ptr.To(quarter)},
			},
			RevisionHistoryLimit:    ptr.To[int32](10),
			ProgressDeadlineSeconds: ptr.To[int32](600),
		},
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// Template builds a pod template for the app that runs the given image.
func Template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: app, Image: image}}},
	}
}

// ReplicaSet builds a ReplicaSet for pods of the template, without owner. Its pods are distinguished by the label
// pod-template-hash, which is the part of its name after the last dash.
func ReplicaSet(name string, replicas int32, t corev1.PodTemplateSpec,
	edits ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	t = *t.DeepCopy()
	t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = name[strings.LastIndex(name, "-")+1:]
	rs := &appsv1.ReplicaSet{
		ObjectMeta: meta(name),
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: t.DeepCopy().Labels},
			Template: t,
		},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, TerminatingReplicas: ptr.To[int32](0)},
	}
	rs.Labels = t.DeepCopy().Labels
	for _, edit := range edits {
		edit(rs)
	}
	return rs
}

// OwnedBy makes the Deployment the controller of the ReplicaSet.
func OwnedBy(d *appsv1.Deployment) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) {
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
			appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
}

// Pods builds n pods of the ReplicaSet, pending. Their names are the set's and a number that begins with from.
func Pods(rs *appsv1.ReplicaSet, from, n int, edits ...func(*corev1.Pod)) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: meta(fmt.Sprintf("%s-%d", rs.Name, from+i)),
			Spec:       *rs.Spec.Template.Spec.DeepCopy(),
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
		p.Labels = rs.Spec.Template.DeepCopy().Labels
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs,
			appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		for _, edit := range edits {
			edit(p)
		}
		pods = append(pods, p)
	}
	return pods
}

// Ready makes the pod running and ready since the given time.
func Ready(since time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		}}
	}
}

// Phase puts the pod into a phase.
func Phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// Terminating makes the pod one that is being deleted.
func Terminating(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(Epoch)) }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: Namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1,
		CreationTimestamp: metav1.NewTime(Epoch),
	}
}
