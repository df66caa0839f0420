package serviceaccount

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // namespaces that are reconciled at the same time
}

// New returns the serviceaccount controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "serviceaccount-controller",
		Alias:   "serviceaccount",
		Account: "service-account-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the caches and says how the controller works. Of ServiceAccounts it needs only that they
// exist.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	namespaces, err1 := informers.Objects[*corev1.Namespace](c.Informers, "status.phase")
	accounts, err2 := informers.Objects[*corev1.ServiceAccount](c.Informers, informers.MetadataOnly)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{namespaces: namespaces, accounts: accounts}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "serviceaccount", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{"Namespace"},
		Watches: []reconcile.Watch{
			namespaces.Watch(informers.Existing),
			accounts.Watch(enqueuedByAccount),
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planAccount),
	}), nil
}
