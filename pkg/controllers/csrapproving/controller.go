package csrapproving

import (
	"cmp"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // requests that are reconciled at the same time
}

// New returns the approver. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "certificatesigningrequest-approving-controller",
		Alias:   "csrapproving",
		Account: "certificate-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the cache of requests and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	requests, err := informers.Objects[*csrutil.Request](c.Informers)
	if err != nil {
		return nil, err
	}
	k := &caches{requests: requests}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "certificate_approving",
		QueueName: "certificate", // shared with the signer, as in the original
		Workers:   int(o.Workers),
		Explained: []string{requests.Kind().Kind},
		Watches:   []reconcile.Watch{requests.Watch(enqueued, informers.WithResync)},
		Observe:   k.observe,
		Remember:  reconcile.Always[snapshot, struct{}, memory], // the memory is of what was asked
		Plan:      reconcile.PlanOnly(planApproval),
	}), nil
}

// enqueued returns the key of a request that may be approved (CSR-4, CSR-29), or that no longer may, so that nothing
// more is remembered of it.
func enqueued(before, after plan.Object) []plan.Key {
	return informers.ItselfIf(before, after, candidate)
}
