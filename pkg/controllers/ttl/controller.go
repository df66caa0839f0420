package ttl

import (
	"cmp"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // nodes that are reconciled at the same time
}

// New returns the node TTL controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "ttl-controller",
		Alias:   "ttl",
		Account: "ttl-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	nodes, err := informers.Nodes(c.Informers, "metadata.annotations["+annotation+"]")
	if err != nil {
		return nil, err
	}
	k := &caches{nodes: nodes}
	k.size = k.newSize()
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "ttlcontroller", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{nodes.Kind().Kind},
		Watches:   []reconcile.Watch{k.size.Follow(nodes.Watch(k.enqueuedByNode, informers.WithResync))},
		Term:      k.size,
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planAnnotation),
		Owner: func(s snapshot) plan.Object {
			if s.Node == nil {
				return nil
			}
			return s.Node
		},
		// what is written does not depend on what was written before, so nothing need be read before it
		SkipVerification: true,
	}), nil
}
