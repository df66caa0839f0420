// Package serviceaccount is the serviceaccount controller: each namespace has a ServiceAccount called default, without which no pod
// can be created in it.
package serviceaccount

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many namespaces are reconciled at the same time.
const workers = 5

// Controller returns the serviceaccount controller's entry in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "serviceaccount-controller",
		Alias:   "serviceaccount",
		Account: "service-account-controller",
		Rights:  Rights,
		Fields:  fields(),
		Init:    initialize,
	}
}

// fields are what the controller reads.
func fields() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{
		kind("Namespace"):      {"status.phase"}, // SA-3
		kind("ServiceAccount"): {projection.MetadataOnly},
	}}
}

func initialize(c manager.Context) (manager.Runner, error) {
	namespaces, err1 := informers.Objects[*corev1.Namespace](c.Informers)
	accounts, err2 := informers.Objects[*corev1.ServiceAccount](c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{namespaces: namespaces, accounts: accounts}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "serviceaccount", // of the queue
		Workers: workers,
		Kinds:   []string{"Namespace"},
		Watches: []reconcile.Watch{
			{Kind: kind("Namespace"), Informer: namespaces.Informer(), Enqueues: enqueuedByNamespace},
			{Kind: kind("ServiceAccount"), Informer: accounts.Informer(), Enqueues: enqueuedByAccount},
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planAccount),
	}), nil
}
