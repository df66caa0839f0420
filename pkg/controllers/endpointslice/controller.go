package endpointslice

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

// New returns the endpointslice controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.Max = cmp.Or(o.Workers, 5), cmp.Or(o.Max, 100)
	return manager.Controller{
		Name:        "endpointslice-controller",
		Alias:       "endpointslice",
		Account:     "endpointslice-controller",
		Beside:      true,
		EventSource: "endpoint-slice-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the controller works. A slice that somebody has edited is looked at
// after a while, so that two writers do not chase each other.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	annotation := func(key string) string { return "metadata.annotations[" + key + "]" }
	services, err1 := informers.Services(c.Informers, "spec", annotation(hintsAnnotation),
		annotation(corev1.AnnotationTopologyMode))
	read := informers.PodFields{Paths: endpoints.PodPaths(), Condition: informers.ReadyCondition}
	pods, err2 := informers.PodsByLabels(c.Informers, read)
	onNodes, err3 := informers.PodsByNode(c.Informers, read)
	nodes, err4 := informers.Nodes(c.Informers, "status.conditions", "status.allocatable")
	slices, err5 := informers.EndpointSlices(c.Informers)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	k := &caches{services: services, pods: pods, onNodes: onNodes, nodes: nodes, slices: slices, most: int(o.Max),
		large: largeService}
	own := newCollectors(func(key plan.Key) bool { return services.Get(key.Namespace, key.Name) != nil })
	c.RegisterMetrics(own.all()...)
	watch := endpoints.SliceWatch{Manager: managedBy, Own: c.Shared.Tracker.Own}
	after := func(d time.Duration) func(plan.Key) time.Duration { return func(plan.Key) time.Duration { return d } }
	return reconcile.New(c.Shared, c.Access.OnStale(own.stale), reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "endpoint_slice", // of the queue (EPS-4)
		Workers:   int(o.Workers),
		Explained: []string{"Service"},
		Watches: []reconcile.Watch{
			services.Watch(own.itself, informers.WithResync, informers.WithChanges), // a resync has all pods looked at
			pods.Watch(k.enqueuedByPod, informers.WithDelay(after(o.BatchPeriod)), informers.WithNews),
			nodes.Watch(k.enqueuedByNode),
			slices.Watch(watch.Edited, informers.WithDelay(after(max(time.Second, o.BatchPeriod)))),
			slices.Watch(watch.Moved),
			slices.Watch(k.enqueuedBySlice),
		},
		Observe:  k.observe,
		Owner:    func(s snapshot) plan.Object { return s.Service },
		Plan:     reconcile.PlanOnly(planSlices),
		Remember: remember,
		Applied:  own.applied,
		Live:     live,
	}), nil
}

// live are the slices that a previous leader may have written.
func live(s snapshot) []reconcile.Live {
	return []reconcile.Live{reconcile.LiveOf(s.Key.Namespace, endpoints.SelectorOf(s.Key.Name, managedBy), s.Slices)}
}
