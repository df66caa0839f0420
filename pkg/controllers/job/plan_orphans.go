package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// orphanSnapshot is what is observed of a pod that may have a finalizer which nobody would remove (JOB-6).
// observeOrphan and proveOrphan fill it, and planOrphan reads it.
type orphanSnapshot struct {
	Pod    *corev1.Pod
	Job    *batchv1.Job // the one that controls the pod, or is about to adopt it; nil if there is none
	Unseen bool         // the Job that controls the pod exists, but the cache does not show it yet
	Gone   bool         // a live read has not found the Job that controls the pod
}

// jobOf is the Job that controls a pod, as it is read live.
func jobOf(pod *corev1.Pod) plan.Ref {
	ref := metav1.GetControllerOfNoCopy(pod)
	return plan.Ref{Kind: jobKind, Namespace: pod.Namespace, Name: ref.Name, Metadata: true}
}

// unseenCheck is when a pod is looked at again whose Job the cache does not show. That may be gone before it does.
const unseenCheck = 10 * time.Second

// planOrphan removes the finalizer of a pod that no Job will count. Without that the pod would stay forever.
func planOrphan(_ time.Time, s orphanSnapshot) plan.Plan {
	switch {
	case s.Unseen:
		return plan.Plan{Requeue: unseenCheck, Why: "the pod has a Job that the cache does not show yet"}
	case !workloads.Tracked(s.Pod) || !orphaned(s):
		return plan.Plan{Why: "the pod has no finalizer, or a Job that will remove it"}
	}
	step := untrack(s.Pod, "no Job will count the pod")
	step.Unowned, step.CheckVersion = true, true
	p := plan.Plan{Steps: []plan.Step{step}, Why: "remove the finalizer: no Job will count the pod"}
	if s.Job == nil && !s.Gone && metav1.GetControllerOfNoCopy(s.Pod) != nil {
		p.Proof = []plan.Ref{jobOf(s.Pod)}
	}
	return p
}

// orphaned reports whether no Job will remove the finalizer.
func orphaned(s orphanSnapshot) bool {
	ref := metav1.GetControllerOfNoCopy(s.Pod)
	if ref == nil {
		return s.Job == nil || !adopts(s.Job, s.Pod)
	}
	return isJob(ref) && (s.Job == nil || s.Job.UID != ref.UID ||
		workloads.JobFinished(s.Job) != nil && !workloads.ManagedElsewhere(s.Job))
}

// adopts reports whether the Job is about to adopt the orphan, which then keeps its finalizer. What is cheap to find
// out comes first, because a namespace may have many Jobs.
func adopts(j *batchv1.Job, orphan *corev1.Pod) bool {
	if j.DeletionTimestamp != nil || orphan.DeletionTimestamp != nil || j.Namespace != orphan.Namespace ||
		leftAlone(j) || j.Spec.Selector == nil {
		return false
	}
	for key, value := range j.Spec.Selector.MatchLabels {
		if label, ok := orphan.Labels[key]; !ok || label != value {
			return false
		}
	}
	selector, err := plan.Selector(j.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(orphan.Labels))
}

// isJob reports whether a reference is to a Job.
func isJob(ref *metav1.OwnerReference) bool {
	return ref.Kind == jobKind.Kind && schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group == jobKind.Group
}
