package ttlafterfinished

import (
	"cmp"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the ttl-after-finished controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "ttl-after-finished-controller",
		Alias:   "ttl-after-finished",
		Account: "ttl-after-finished-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the cache of Jobs and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	jobs, err := informers.Objects[*batchv1.Job](c.Informers, "spec.ttlSecondsAfterFinished", "status.conditions",
		"status.completionTime")
	if err != nil {
		return nil, err
	}
	k := &caches{jobs: jobs}
	own := newCollectors()
	c.RegisterMetrics(own.late)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "ttl_jobs_to_delete", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{jobs.Kind().Kind},
		Watches:   []reconcile.Watch{jobs.Watch(enqueuedByJob, informers.WithResync)},
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planDeletion),
		Applied:   own.applied,
	}), nil
}

// enqueuedByJob returns the key of a Job that is to be deleted some time (TTL-22), or that no longer is, so that
// nothing more is remembered of it.
func enqueuedByJob(before, after plan.Object) []plan.Key {
	for _, o := range []plan.Object{after, before} {
		if job, ok := o.(*batchv1.Job); ok && candidate(job) {
			return []plan.Key{{Namespace: job.Namespace, Name: job.Name}}
		}
	}
	return nil
}
