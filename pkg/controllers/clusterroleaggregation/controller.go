// Package clusterroleaggregation is the ClusterRole aggregation controller: the rules of a ClusterRole with an aggregation rule are those
// of the ClusterRoles that it selects.
package clusterroleaggregation

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many ClusterRoles are reconciled at the same time.
const workers = 5

// Controller returns the entry of the ClusterRole aggregation controller in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "clusterrole-aggregation-controller",
		Alias:   "clusterrole-aggregation",
		Account: "clusterrole-aggregation-controller",
		Rights:  Rights,
		Fields:  cached(),
		Init:    initialize,
	}
}

func kind() schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind("ClusterRole") }

// cached are the fields that the controller reads.
func cached() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{kind(): {"rules", "aggregationRule"}}}
}

func initialize(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "ClusterRoleAggregator", // of the queue
		Workers: workers,
		Kinds:   []string{kind().Kind},
		Watches: []reconcile.Watch{{Kind: kind(), Informer: k.roles.Informer(), Enqueues: k.enqueuedByRole, Resync: true}},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planRules),
		Owner: func(s snapshot) plan.Object {
			if s.Role == nil {
				return nil
			}
			return s.Role
		},
	}), nil
}
