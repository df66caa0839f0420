package resourcequota

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/usage"
	"github.com/standalone-kcm/controller-manager/pkg/client"
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

// quotaKind is that of ResourceQuotas.
var quotaKind = corev1.SchemeGroupVersion.WithKind("ResourceQuota")

// init asks for the cache of quotas and makes the index, which watches on its own what the quotas limit.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	quotas, err := informers.Objects[*corev1.ResourceQuota](c.Informers)
	if err != nil {
		return nil, err
	}
	root, err := c.Root()
	if err != nil {
		return nil, err
	}
	kept, err := projection.New(usage.Fields())
	if err != nil {
		return nil, err
	}
	config, _ := root.Config()
	feeder, err := listwatch.NewClient(config, kept)
	if err != nil {
		return nil, err
	}
	gates := quota.Gates{
		PodLevelResources:         c.Enabled("PodLevelResources"),
		PodLevelResize:            c.Enabled("InPlacePodLevelResourcesVerticalScaling"),
		ExtendedResourcesByClaims: c.Enabled("DRAExtendedResource"),
	}
	k := &caches{quotas: quotas, gates: gates, index: usage.New(usage.Config{
		Gates: gates, Period: o.SyncPeriod, Arrivals: reservedFor, Now: c.Shared.Clock.Now,
		Resources: c.Clients.Mapper().PreferredResources, Metadata: c.Metadata, Feed: feeder.Feed,
	})}
	if c.Shared.Verifier != nil {
		k.verifier = verifier{c.Shared.Verifier}
	}
	return runner{reconcile.New(c.Shared, c.Access, k.controller(int(o.Workers))), k.index}, nil
}

// runner also reports what cannot be counted.
type runner struct {
	*reconcile.Runner[snapshot, struct{}, memory]
	index *usage.Index
}

// Unlisted names what quotas limit and could not be listed in time, for a health check (REG-103).
func (r runner) Unlisted() []string { return r.index.Unlisted() }

// controller returns the parts that the engine runs.
func (k *caches) controller(workers int) reconcile.Controller[snapshot, struct{}, memory] {
	return reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "resourcequota",
		QueueName: "resourcequota_primary",
		Workers:   workers,
		Explained: []string{quotaKind.Kind},
		Watches:   []reconcile.Watch{k.quotas.Watch(informers.Itself, informers.WithChanges)},
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planUsage),
		Remember:  reconcile.RememberOutcome(remember),
		Owner:     owner,
		Subject:   func(s snapshot) types.UID { return owner(s).GetUID() },
		// the version is a precondition of the only write, so that nothing need be read before it
		SkipVerification: true,
		Source: func(ctx context.Context, enqueue func(plan.Key)) {
			k.index.Run(ctx, k.quotas.Informer(), enqueue)
		},
	}
}

// owner is the quota, whose status is all that is written.
func owner(s snapshot) plan.Object {
	if s.Quota == nil {
		return nil
	}
	return s.Quota
}

// verifier reports which live lists fail. They are tried again.
type verifier struct{ client.Reader }

// List implements client.Reader.
func (v verifier) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions,
	into runtime.Object) error {
	err := v.Reader.List(ctx, m, namespace, o, into)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot list what a quota limits", "resource", m.GroupResource().String(),
			"namespace", namespace, "err", err.Error())
	}
	return err
}
