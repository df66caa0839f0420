package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// saw says in a few words how an object was: fields from a fixed list, none of which users fill with content.
func saw(o plan.Object) string {
	var words []string
	switch o := o.(type) {
	case *corev1.Pod:
		words = sawPod(o)
	case *appsv1.ReplicaSet:
		words = sawReplicas(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas)
	case *appsv1.StatefulSet:
		words = sawReplicas(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas)
	case *appsv1.Deployment:
		words = sawReplicas(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas)
	case *corev1.ReplicationController:
		words = sawReplicas(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas)
	case *batchv1.Job:
		words = append(words, fmt.Sprintf("%d active, %d succeeded, %d failed", o.Status.Active, o.Status.Succeeded,
			o.Status.Failed))
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		words = append(words, "deletion asked for by "+deletionAsked(o).UTC().Format(time.RFC3339))
	}
	if names := o.GetFinalizers(); len(names) > 0 {
		words = append(words, "finalizers "+join(names))
	}
	return clip(strings.Join(words, ", "))
}

// deletionAsked is when the deletion was asked for: the time in the object is when its grace period ends.
func deletionAsked(o metav1.Object) time.Time {
	at := o.GetDeletionTimestamp().Time
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil {
		at = at.Add(-workloads.Seconds(*grace))
	}
	return at
}

func sawPod(p *corev1.Pod) (words []string) {
	if p.Status.Phase != "" {
		words = append(words, string(p.Status.Phase))
	}
	if p.Status.Reason != "" {
		words = append(words, clip(p.Status.Reason))
	}
	if p.Spec.NodeName != "" {
		words = append(words, "on node "+p.Spec.NodeName)
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			words = append(words, "ready")
		case c.Type == corev1.PodReady:
			words = append(words, "not ready")
		}
	}
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, c := range statuses[:min(len(statuses), mostNames)] {
		if end := c.State.Terminated; end != nil {
			words = append(words, fmt.Sprintf("container %s ended with %d %s", c.Name, end.ExitCode, end.Reason))
		}
	}
	return words
}

func sawReplicas(wanted *int32, there, ready int32) []string {
	if wanted == nil {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d replicas, %d ready", there, *wanted, ready)}
}

// changeOf says what a change does to owners, finalizers and replicas; empty if it does nothing of that.
func changeOf(before, after plan.Object) string {
	var words []string
	if from, to := replicasOf(before), replicasOf(after); from != nil && to != nil && *from != *to {
		words = append(words, fmt.Sprintf("replicas %d -> %d", *from, *to))
	}
	names := func(o plan.Object) (all []string) {
		for _, owner := range ownersOf(o) {
			all = append(all, owner.Kind+" "+owner.Name)
		}
		return all
	}
	words = append(words, differences("owner", names(before), names(after))...)
	words = append(words, differences("finalizer", before.GetFinalizers(), after.GetFinalizers())...)
	return clip(strings.Join(words, ", "))
}

// replicasOf is how many replicas an object wants; nil if it wants none in particular.
func replicasOf(o plan.Object) *int32 {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return o.Spec.Replicas
	case *appsv1.Deployment:
		return o.Spec.Replicas
	case *appsv1.StatefulSet:
		return o.Spec.Replicas
	case *corev1.ReplicationController:
		return o.Spec.Replicas
	case *autoscalingv1.Scale:
		return &o.Spec.Replicas
	}
	return nil
}

// differences names what is new in a list, and what is not in it any more.
func differences(what string, before, after []string) (words []string) {
	without := func(all, others []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })
	}
	if left := without(before, after); len(left) > 0 {
		words = append(words, what+" removed: "+join(left))
	}
	if added := without(after, before); len(added) > 0 {
		words = append(words, what+" added: "+join(added))
	}
	return words
}

// join lists the first of some names.
func join(names []string) string {
	if len(names) > mostNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
	}
	return strings.Join(names, ", ")
}
