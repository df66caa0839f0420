package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated; this controller serves those who still write them

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the endpointslicemirroring controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.Max = cmp.Or(o.Workers, 5), cmp.Or(o.Max, 1000)
	return manager.Controller{
		Name:        "endpointslice-mirroring-controller",
		Alias:       "endpointslicemirroring",
		Account:     "endpointslicemirroring-controller",
		Beside:      true,
		EventSource: "endpoint-slice-mirroring-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the controller works. A slice that somebody has edited is looked at
// after a while, so that two writers do not chase each other.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	stored, err1 := informers.Objects[*corev1.Endpoints](c.Informers, "subsets", "metadata.annotations")
	services, err2 := informers.Services(c.Informers, "spec.selector")
	slices, err3 := informers.EndpointSlices(c.Informers)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{endpoints: stored, services: services, slices: slices, most: int(o.Max)}
	own := newCollectors(k.hasEndpoints)
	c.RegisterMetrics(own.all()...)
	watch := endpoints.SliceWatch{Manager: managedBy, Own: c.Shared.Tracker.Own}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "endpoint_slice_mirroring", // of the queue (EPS-4)
		Workers:   int(o.Workers),
		Explained: []string{"Endpoints"},
		Watches: []reconcile.Watch{
			stored.Watch(k.enqueuedByEndpoints, informers.WithResync),
			services.Watch(enqueuedByService),
			slices.Watch(watch.Edited,
				informers.WithDelay(func(plan.Key) time.Duration { return max(time.Second, o.BatchPeriod) })),
			slices.Watch(watch.Moved),
		},
		Observe: k.observe,
		Owner:   owner,
		Plan:    reconcile.PlanOnly(planMirror),
		Applied: own.applied,
		Live:    live,
	}), nil
}

// live are the slices that a previous leader may have written.
func live(s snapshot) []reconcile.Live {
	return []reconcile.Live{reconcile.LiveOf(s.Key.Namespace, endpoints.SelectorOf(s.Key.Name, managedBy), s.Slices)}
}
