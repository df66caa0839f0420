package servicecidr

import (
	"cmp"
	"errors"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // ServiceCIDRs that are reconciled at the same time
}

// New returns the service-cidr controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:        "service-cidr-controller",
		Account:     "service-cidrs-controller",
		EventSource: "service-cidr-controller",
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the controller works. Of addresses, their names and labels say all.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	ranges, err1 := informers.IndexedObjects(c.Informers, "being deleted", beingDeleted, "spec.cidrs",
		"status.conditions")
	addresses, err2 := informers.Objects[*networkingv1.IPAddress](c.Informers, informers.MetadataOnly)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := newCaches(ranges, addresses)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "servicecidr",
		QueueName: "ipaddresses",
		Workers:   int(o.Workers),
		Explained: []string{ranges.Kind().Kind},
		Watches: []reconcile.Watch{
			ranges.Watch(k.enqueuedByRange, informers.WithResync),
			k.allocated.Follow(addresses.Watch(k.enqueuedByAddress)),
		},
		Term:    k.allocated,
		Observe: k.observe,
		Prove:   prove,
		Plan:    reconcile.PlanOnly(planFinalizer),
		Report:  reconcile.ReportOnly[snapshot, struct{}](reportReady),
		Owner:   func(s snapshot) plan.Object { return s.CIDR },
	}), nil
}
