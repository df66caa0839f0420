package clusterroleaggregation

import (
	"cmp"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // ClusterRoles that are reconciled at the same time
}

// New returns the ClusterRole aggregation controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "clusterrole-aggregation-controller",
		Alias:   "clusterrole-aggregation",
		Account: "clusterrole-aggregation-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the two indexes of ClusterRoles and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "ClusterRoleAggregator", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{k.roles.Kind().Kind},
		Watches:   []reconcile.Watch{k.roles.Watch(k.enqueuedByRole, informers.WithResync)},
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planRules),
		Owner: func(s snapshot) plan.Object {
			if s.Role == nil {
				return nil
			}
			return s.Role
		},
	}), nil
}
