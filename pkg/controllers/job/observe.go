package job

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	jobs informers.Store[*batchv1.Job]
	pods informers.PodCache
}

// observe finds the Job, its pods and the orphans that it may adopt. Nothing is read live.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	job := k.jobs.Get(r.Key.Namespace, r.Key.Name)
	if job == nil {
		return o, nil
	}
	o.Exists = true
	if leftAlone(job) {
		o.Snapshot = snapshot{Job: job, Began: r.Now}
		return o, nil
	}
	o.Snapshot = newSnapshot(job, append(k.pods.OwnedBy(job.Namespace, job.UID), k.pods.OrphansIn(job.Namespace)...))
	o.Snapshot.Began = r.Now
	return o, nil
}

// live names the pods that a previous leader may have created, counted or deleted.
func live(s snapshot) []reconcile.Live {
	if s.selector == nil {
		return nil
	}
	cached := make([]plan.Object, len(s.Pods))
	for i, p := range s.Pods {
		cached[i] = p
	}
	return []reconcile.Live{{Kind: podKind, Namespace: s.Job.Namespace, Selector: s.selector, Cached: cached}}
}

// observeOrphan finds a pod and the Jobs that it belongs to, or may come to belong to.
func (k *caches) observeOrphan(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[orphanSnapshot, struct{}], err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists = true
	o.Snapshot.Pod = pod
	if !tracked(pod) {
		return o, nil
	}
	switch ref := metav1.GetControllerOfNoCopy(pod); {
	case ref == nil:
		o.Snapshot.Jobs = k.jobs.In(pod.Namespace)
	case isJob(ref):
		if job := k.jobs.Get(pod.Namespace, ref.Name); job != nil {
			o.Snapshot.Jobs = []*batchv1.Job{job}
		}
	}
	return o, nil
}

// liveOrphan names the Jobs whose absence decides about a pod.
func liveOrphan(s orphanSnapshot) []reconcile.Live {
	jobs := reconcile.Live{Kind: jobKind, Namespace: s.Pod.Namespace, Selector: labels.Everything()}
	if ref := metav1.GetControllerOfNoCopy(s.Pod); ref != nil {
		jobs.Name = ref.Name
	}
	for _, job := range s.Jobs {
		jobs.Cached = append(jobs.Cached, job)
	}
	return []reconcile.Live{jobs}
}
