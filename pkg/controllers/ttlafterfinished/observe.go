package ttlafterfinished

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct{ jobs informers.Store[*batchv1.Job] }

// observe finds the Job. One that is not to be deleted is as good as gone.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	job := k.jobs.Get(r.Key.Namespace, r.Key.Name)
	if job == nil || !candidate(job) {
		return o, nil
	}
	o.Exists, o.Snapshot.Job = true, job
	if doubt := doubtful(r.Now, job); doubt != "" {
		o.Memory = &memory{UID: job.UID, Logged: doubt}
		o.Snapshot.Logged = r.Memory != nil && *r.Memory == *o.Memory
	}
	return o, nil
}
