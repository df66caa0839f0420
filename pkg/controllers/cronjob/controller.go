package cronjob

import (
	"cmp"
	"errors"
	_ "time/tzdata" // time zones also where the file system has none (CJ-28)

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the cronjob controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "cronjob-controller",
		Alias:   "cronjob",
		Account: "cronjob-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// annotationPath names an annotation as a field that a cache keeps.
func annotationPath(key string) string { return "metadata.annotations[" + key + "]" }

// init asks for the caches and says how the controller works. Of Jobs it reads when they were scheduled, when
// they began and ended, and how.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	cronJobs, err1 := informers.Objects[*batchv1.CronJob](c.Informers)
	jobs, err2 := informers.OwnedObjects[*batchv1.Job](c.Informers,
		annotationPath(batchv1.CronJobScheduledTimestampAnnotation), annotationPath(manualAnnotation),
		"status.conditions", "status.startTime", "status.completionTime")
	named, err3 := informers.IndexedObjects(c.Informers, "cronjob-name", namedFor, informers.MetadataOnly)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{cronJobs: cronJobs, jobs: jobs, named: named}
	owners := informers.Owners[*batchv1.CronJob]{Kind: kind().Kind, Get: cronJobs.Get}
	own := newCollectors()
	c.RegisterMetrics(own.skew)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:      "cronjob", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{kind().Kind},
		Watches: []reconcile.Watch{
			cronJobs.Watch(informers.Itself, informers.WithResync),
			jobs.Watch(enqueuedByJob(owners)),
		},
		Observe:  k.observe,
		Owner:    func(s snapshot) plan.Object { return s.CronJob },
		Subject:  func(s snapshot) types.UID { return s.CronJob.UID },
		Plan:     planJobs,
		Remember: reconcile.RememberOutcome(remember),
		Report:   reportStatus,
		Applied:  own.applied,
	}), nil
}

// enqueuedByJob returns a function that names whoever owned a Job before a change or owns it after (CJ-3), unless
// nothing has changed that a CronJob looks at: a large Job changes its counters many times before it ends.
func enqueuedByJob(owners informers.Owners[*batchv1.CronJob]) func(before, after plan.Object) []plan.Key {
	return func(before, after plan.Object) (keys []plan.Key) {
		if b, ok := before.(*batchv1.Job); ok {
			if a, ok := after.(*batchv1.Job); ok && alike(a, b) {
				return nil
			}
		}
		if before != nil {
			keys = owners.Of(before, keys)
		}
		if after != nil {
			keys = owners.Of(after, keys)
		}
		return keys
	}
}

// kind is that of CronJobs.
func kind() schema.GroupVersionKind { return batchv1.SchemeGroupVersion.WithKind("CronJob") }
