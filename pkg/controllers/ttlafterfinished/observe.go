package ttlafterfinished

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct{ jobs informers.Store[*batchv1.Job] }

// observe finds the Job.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	o.Snapshot.Job = k.jobs.Get(r.Key.Namespace, r.Key.Name)
	o.Exists = o.Snapshot.Job != nil
	return o, nil
}
