package nodeipam

import (
	"cmp"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// allocation is the only key: see the package documentation.
var allocation = plan.Key{Name: "allocation"}

// New returns the controller. It is off unless Allocate is set. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.AllocatorType = cmp.Or(o.AllocatorType, rangeAllocator)
	return manager.Controller{
		Name:        "node-ipam-controller",
		Alias:       "nodeipam",
		Account:     "node-controller",
		EventSource: "cidrAllocator",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// init reads which ranges there are, asks for the cache of nodes and says how the controller works. Without
// --allocate-node-cidrs it is off.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if !o.Allocate {
		return nil, manager.Off{Why: "nodes get no ranges of addresses, see --allocate-node-cidrs"}
	}
	pools, err := o.pools()
	if err != nil {
		return nil, err
	}
	services, err := o.services()
	if err != nil {
		return nil, err
	}
	nodes, err := informers.Nodes(c.Informers, "spec.podCIDR", "spec.podCIDRs")
	if err != nil {
		return nil, err
	}
	k := &caches{nodes: nodes, pools: pools, services: services}
	own := newCollectors(pools)
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:     "cidrallocator_node", // of the queue (IPAM-2)
		Workers:  1,
		Watches:  []reconcile.Watch{nodes.Watch(enqueued)},
		Source:   reconcile.Keys(allocation),
		Observe:  k.observe,
		Plan:     planRanges,
		Remember: reconcile.RememberOutcome(remember),
		Applied:  own.applied,
		Live:     k.live,
	}), nil
}
