package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// orphanSnapshot is what is observed of a pod that may have a finalizer which nobody would remove (JOB-6).
type orphanSnapshot struct {
	Pod  *corev1.Pod
	Jobs []*batchv1.Job // the one that the pod's controller reference names, or all of the namespace if it has none
}

// planOrphan removes the finalizer of a pod that no Job will count. Without that the pod would stay forever.
func planOrphan(_ time.Time, s orphanSnapshot) plan.Plan {
	if !tracked(s.Pod) || !unclaimed(s) {
		return plan.Plan{Why: "the pod has no finalizer, or a Job that will remove it"}
	}
	step := untrack(s.Pod, "no Job will count the pod")
	step.Unowned, step.Version = true, true
	return plan.Plan{Steps: []plan.Step{step}, Why: "remove the finalizer: no Job will count the pod"}
}

// unclaimed reports whether no Job will remove the finalizer.
func unclaimed(s orphanSnapshot) bool {
	ref := metav1.GetControllerOfNoCopy(s.Pod)
	if ref == nil {
		return !slices.ContainsFunc(s.Jobs, func(j *batchv1.Job) bool { return adopts(j, s.Pod) })
	}
	return isJob(ref) && !slices.ContainsFunc(s.Jobs, func(j *batchv1.Job) bool {
		return j.Name == ref.Name && j.UID == ref.UID && (foreign(j) || !finished(j))
	})
}

// adopts reports whether the Job is about to adopt the orphan, which then keeps its finalizer.
func adopts(j *batchv1.Job, orphan *corev1.Pod) bool {
	selector, err := selectorOf(j)
	return err == nil && !leftAlone(j) && j.DeletionTimestamp == nil && orphan.DeletionTimestamp == nil && j.Namespace == orphan.Namespace &&
		selector.Matches(labels.Set(orphan.Labels))
}

func isJob(ref *metav1.OwnerReference) bool {
	return ref.Kind == jobKind.Kind && schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group == jobKind.Group
}
