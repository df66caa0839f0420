package resourcequota

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the resourcequota controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.SyncPeriod = cmp.Or(o.Workers, 5), flagutil.Default(o.SyncPeriod, 5*time.Minute)
	return manager.Controller{
		Name:    "resourcequota-controller",
		Alias:   "resourcequota",
		Account: "resourcequota-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

var quotaKind = corev1.SchemeGroupVersion.WithKind("ResourceQuota")

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	quotas, err := informers.Objects[*corev1.ResourceQuota](c.Informers)
	if err != nil {
		return nil, err
	}
	root, err := c.Root()
	if err != nil {
		return nil, err
	}
	kept, err := projection.New(counted())
	if err != nil {
		return nil, err
	}
	config, _ := root.Config()
	client, err := listwatch.NewClient(config, kept)
	if err != nil {
		return nil, err
	}
	gates := quota.Gates{
		PodLevelResources: c.Enabled("PodLevelResources"), PodLevelResize: c.Enabled("InPlacePodLevelResourcesVerticalScaling"),
		ExtendedResourcesByClaims: c.Enabled("DRAExtendedResource"),
	}
	k := newCaches(quotas, gates, o.SyncPeriod)
	if c.Shared.Verifier != nil {
		k.verifier = verifier{c.Shared.Verifier}
	}
	k.sources.resources = c.Clients.Mapper().PreferredResources
	k.sources.metadata = c.Metadata
	k.sources.feed = client.Feed
	return runner{reconcile.New(c.Shared, c.Access, k.controller(int(o.Workers))), k.sources}, nil
}

// runner also tells what cannot be counted.
type runner struct {
	*reconcile.Runner[snapshot, struct{}, memory]
	sources *sources
}

// Unlisted names what quotas limit and could not be listed in time, for a health check (REG-103).
func (r runner) Unlisted() []string { return r.sources.unlisted() }

// controller returns the parts that the engine runs.
func (k *caches) controller(workers int) reconcile.Controller[snapshot, struct{}, memory] {
	return reconcile.Controller[snapshot, struct{}, memory]{
		Name:             "resourcequota",
		QueueName:        "resourcequota_primary", // RQ-47
		Workers:          workers,
		Kinds:            []string{quotaKind.Kind},
		Watches:          []reconcile.Watch{k.quotas.Watch(informers.Itself, informers.WithChanges)},
		Observe:          k.observe,
		Plan:             reconcile.PlanOnly(planUsage),
		Remember:         reconcile.RememberOutcome(remember),
		Owner:            owner,
		SkipVerification: true, // the version is a precondition of the only write, so that nothing need be read before it
		Source:           k.follow,
	}
}

func owner(s snapshot) plan.Object {
	if s.Quota == nil {
		return nil
	}
	return s.Quota
}

// counted are the fields of the objects that are watched for what they are charged with.
func counted() projection.Fields {
	kinds := map[schema.GroupVersionKind][]string{deviceClassKind: {"spec.extendedResourceName"}}
	for _, t := range typed() {
		kinds[t.kind] = t.fields
	}
	return projection.Fields{Kinds: kinds}
}

// follow counts until ctx ends.
func (k *caches) follow(ctx context.Context, enqueue func(plan.Key)) {
	k.counters.reset()
	k.sources.run(ctx, k, enqueue)
	k.counters.reset()
}
