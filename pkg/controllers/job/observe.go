package job

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	jobs informers.Store[*batchv1.Job]
	pods informers.PodCache
	// groups are those of Workloads and PodGroups; nil without the gate.
	groups *groupCaches
	// gone has the uids of Jobs that live reads have not found, which may have had many pods each. Uids are not
	// used again.
	gone *reconcile.Term[[]types.UID]
}

// rememberedGone is how many Jobs are remembered that do not exist.
const rememberedGone = 1000

func newCaches(jobs informers.Store[*batchv1.Job], pods informers.PodCache) *caches {
	return &caches{jobs, pods, nil, reconcile.NewTerm(reconcile.TermOptions[[]types.UID]{})}
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
	o.Snapshot = snapshot{Job: job, Pods: pods, Scheduling: k.scheduling(job), Began: r.Now, Memory: r.Memory}
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

type orphanObservation = reconcile.Observation[orphanSnapshot, struct{}]

// observeOrphan finds a pod and the Job that it belongs to, or may come to belong to.
func (k *caches) observeOrphan(_ context.Context, r reconcile.Request[struct{}]) (o orphanObservation, err error) {
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
		gone, _ := k.gone.Get()
		o.Snapshot.Gone = slices.Contains(gone, ref.UID)
	}
	return o, nil
}

// proveOrphan puts in what a live read has shown of the Job that controls the pod. The watch of Jobs may lag that of
// pods.
func proveOrphan(o orphanObservation, proof reconcile.Proof) orphanObservation {
	s := &o.Snapshot
	if live, ok, _ := reconcile.Found[*metav1.PartialObjectMetadata](proof, jobOf(s.Pod)); ok {
		s.Unseen = live != nil && live.UID == metav1.GetControllerOfNoCopy(s.Pod).UID
		s.Gone = !s.Unseen
	}
	return o
}

// rememberGone remembers the Job that controls the pod, if a live read has not found it.
func (k *caches) rememberGone(_ context.Context, s orphanSnapshot, _ struct{}, _, _ plan.Outcome) {
	if !s.Gone {
		return
	}
	uid := metav1.GetControllerOfNoCopy(s.Pod).UID
	k.gone.Update(func(gone []types.UID) []types.UID {
		if slices.Contains(gone, uid) {
			return gone
		}
		return append(slices.Clone(gone[max(0, len(gone)+1-rememberedGone):]), uid)
	})
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

// liveOrphan names the Jobs that may adopt a pod which nobody controls. Whether the Job exists that controls a pod is
// read live anyway.
func liveOrphan(s orphanSnapshot) []reconcile.Live {
	if metav1.GetControllerOfNoCopy(s.Pod) != nil || s.Pod.DeletionTimestamp != nil {
		return nil
	}
	return []reconcile.Live{{Kind: jobKind, Namespace: s.Pod.Namespace, Selector: labels.Everything()}}
}
