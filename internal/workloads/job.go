package workloads

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// JobFinished returns the condition by which a Job has finished, the first one that is Complete or Failed; nil if it
// has not.
func JobFinished(job *batchv1.Job) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// Tracked reports whether a pod has not been counted yet by the Job that it belongs to.
func Tracked(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }

// JobCondition returns the condition of a type, nil if there is none.
func JobCondition(s batchv1.JobStatus, t batchv1.JobConditionType) *batchv1.JobCondition {
	i := slices.IndexFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &s.Conditions[i]
}

// HasJobCondition reports whether the status has the condition of a type, and it is True.
func HasJobCondition(s batchv1.JobStatus, t batchv1.JobConditionType) bool {
	c := JobCondition(s, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// ManagedElsewhere reports whether the Job names another controller in spec.managedBy.
func ManagedElsewhere(j *batchv1.Job) bool {
	return ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

// Suspended reports whether no pods of the Job shall run.
func Suspended(j *batchv1.Job) bool { return ptr.Deref(j.Spec.Suspend, false) }

// Indexed reports whether each completion of the Job has an index of its own.
func Indexed(j *batchv1.Job) bool {
	return ptr.Deref(j.Spec.CompletionMode, "") == batchv1.IndexedCompletion
}

// HasLimitPerIndex reports whether the failures of each index are limited, and not only those of the whole Job.
func HasLimitPerIndex(j *batchv1.Job) bool { return Indexed(j) && j.Spec.BackoffLimitPerIndex != nil }

// ReplacesOnlyEnded reports whether pods are replaced only when they have ended, and not already while they are being
// deleted.
func ReplacesOnlyEnded(j *batchv1.Job) bool {
	return j.Spec.PodFailurePolicy != nil || ptr.Deref(j.Spec.PodReplacementPolicy, "") == batchv1.Failed
}

// Completions is the wanted number of completions, zero if there is none.
func Completions(j *batchv1.Job) int { return int(max(0, ptr.Deref(j.Spec.Completions, 0))) }

// Parallelism is how many pods may be active at a time.
func Parallelism(j *batchv1.Job) int { return int(max(0, ptr.Deref(j.Spec.Parallelism, 1))) }
