package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// orphansByPod returns the key of a pod with a finalizer that nobody else may remove.
func (k *caches) orphansByPod(_, after plan.Object) []plan.Key {
	pod, ok := after.(*corev1.Pod)
	if !ok || !workloads.Tracked(pod) {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref != nil && !isJob(ref) {
		return nil
	}
	if ref != nil {
		if job := k.jobs.Get(pod.Namespace, ref.Name); job != nil && job.UID == ref.UID &&
			workloads.JobFinished(job) == nil {
			return nil
		}
	}
	return []plan.Key{plan.KeyOf(pod)}
}

// orphansByJob returns the keys of the pods of a Job that is gone or finished, if they still have the finalizer
// (JOB-2, JOB-6).
func (k *caches) orphansByJob(before, after plan.Object) (keys []plan.Key) {
	job, ok := after.(*batchv1.Job)
	if !ok {
		job, ok = before.(*batchv1.Job)
	}
	if !ok || after != nil && workloads.JobFinished(job) == nil {
		return nil
	}
	for _, pod := range k.pods.OwnedBy(job.Namespace, job.UID) {
		if workloads.Tracked(pod) {
			keys = append(keys, plan.KeyOf(pod))
		}
	}
	selector, err := plan.Selector(job.Spec.Selector)
	if err != nil {
		return keys
	}
	for _, pod := range k.pods.OrphansIn(job.Namespace) {
		if workloads.Tracked(pod) && selector.Matches(labels.Set(pod.Labels)) {
			keys = append(keys, plan.KeyOf(pod))
		}
	}
	return keys
}
