package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	jobs informers.Store[*batchv1.Job]
	pods informers.PodCache
	gone *lru.Cache // the uids of Jobs that the server does not know. Uids are not used again.
}

// rememberedGone is how many Jobs are remembered that do not exist. They may have had many pods each.
const rememberedGone = 1000

// newCaches returns what the controller reads, and remembers no Job that is gone.
func newCaches(jobs informers.Store[*batchv1.Job], pods informers.PodCache) *caches {
	return &caches{jobs, pods, lru.New(rememberedGone)}
}

// observe finds the Job, its pods and the orphans that it may adopt. Nothing is read live.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	job := k.jobs.Get(r.Key.Namespace, r.Key.Name)
	if job == nil {
		return o, nil
	}
	o.Exists = true
	if leftAlone(job) {
		o.Snapshot = snapshot{Job: job, Began: r.Now}
		return o, nil
	}
	pods := append(k.pods.OwnedBy(job.Namespace, job.UID), k.pods.OrphansIn(job.Namespace)...)
	o.Snapshot = snapshot{Job: job, Pods: pods, Began: r.Now, Memory: r.Memory}
	return o, nil
}

// live names the pods that a previous leader may have created, counted or deleted.
func live(s snapshot) []reconcile.Live {
	selector, err := plan.Selector(s.Job.Spec.Selector)
	if err != nil || leftAlone(s.Job) {
		return nil
	}
	return []reconcile.Live{reconcile.LiveOf(s.Job.Namespace, selector, s.Pods)}
}

// observeOrphan finds a pod and the Job that it belongs to, or may come to belong to.
func (k *caches) observeOrphan(ctx context.Context,
	r reconcile.Request[struct{}]) (o reconcile.Observation[orphanSnapshot, struct{}], err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists = true
	o.Snapshot.Pod = pod
	if !workloads.Tracked(pod) {
		return o, nil
	}
	switch ref := metav1.GetControllerOfNoCopy(pod); {
	case ref == nil:
		o.Snapshot.Job = k.adopter(pod)
	case isJob(ref):
		if job := k.jobs.Get(pod.Namespace, ref.Name); job != nil && job.UID == ref.UID {
			o.Snapshot.Job = job
			return o, nil
		}
		o.Snapshot.Unseen, err = k.exists(ctx, r.Reader, plan.Key{Namespace: pod.Namespace, Name: ref.Name}, ref.UID)
	}
	return o, err
}

// adopter returns a Job that is about to adopt the orphan, nil if there is none.
func (k *caches) adopter(orphan *corev1.Pod) *batchv1.Job {
	if orphan.DeletionTimestamp != nil {
		return nil
	}
	for _, job := range k.jobs.In(orphan.Namespace) {
		if adopts(job, orphan) {
			return job
		}
	}
	return nil
}

// exists asks the server for a Job that the cache does not show. The watch of Jobs may lag that of pods.
func (k *caches) exists(ctx context.Context, reader client.Reader, key plan.Key, uid types.UID) (bool, error) {
	if _, ok := k.gone.Get(uid); ok {
		return false, nil
	}
	jobs := client.MappingFor[*batchv1.Job]()
	var found metav1.PartialObjectMetadata
	switch err := reader.Get(ctx, jobs, key, &found); {
	case err == nil && found.UID == uid:
		return true, nil
	case err != nil && !client.IsAbsent(err):
		return false, fmt.Errorf("read the Job %s: %w", key.Name, err)
	}
	k.gone.Add(uid, nil)
	return false, nil
}

// liveOrphan names the Jobs that may adopt a pod which nobody controls. Whether the Job exists that controls a pod is
// read live anyway.
func liveOrphan(s orphanSnapshot) []reconcile.Live {
	if metav1.GetControllerOfNoCopy(s.Pod) != nil || s.Pod.DeletionTimestamp != nil {
		return nil
	}
	return []reconcile.Live{{Kind: jobKind, Namespace: s.Pod.Namespace, Selector: labels.Everything()}}
}
