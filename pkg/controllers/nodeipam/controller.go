package nodeipam

import (
	"cmp"

	"k8s.io/klog/v2"

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

// fewNodes is for how many nodes a range has room that was probably meant to be larger, such as one that is as long as
// the range of one node.
const fewNodes = 4

// init reads which ranges there are, asks for the cache of nodes and says how the controller works. Without
// --allocate-node-cidrs it is off.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if !o.Allocate {
		why := "nodes get no ranges of addresses, see --allocate-node-cidrs"
		if o.ClusterCIDR != "" {
			why += ", without which --cluster-cidr has no effect"
		}
		return nil, manager.Off{Why: why}
	}
	pools, err := o.pools()
	if err != nil {
		return nil, err
	}
	services, err := o.services()
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		if last := p.last(); last < fewNodes {
			klog.Background().Info("Warning: a range of --cluster-cidr has room for few nodes",
				"range", p.Range.String(), "nodes", last+1, "lengthOfPrefix", p.Bits)
		}
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
