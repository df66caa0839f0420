// Package csrapproving is the controller that approves requests for the client certificates of kubelets, if who asks may have one.
package csrapproving

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many requests are looked at at the same time (CSR-2).
const workers = 5

// Controller returns the approver's entry in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "certificatesigningrequest-approving-controller",
		Alias:   "csrapproving",
		Account: "certificate-controller",
		Rights:  Rights,
		Fields:  cached(),
		Init:    initialize,
	}
}

// cached says that requests are kept whole: they are written back whole.
func cached() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{csrutil.Kind(): {}}}
}

func initialize(c manager.Context) (manager.Runner, error) {
	requests, err := informers.Objects[*csrutil.Request](c.Informers)
	if err != nil {
		return nil, err
	}
	k := &caches{requests: requests}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "certificate_approving",
		QueueName: "certificate", // shared with the signer, as in the original
		Workers:   workers,
		Kinds:     []string{csrutil.Kind().Kind},
		Watches:   []reconcile.Watch{{Kind: csrutil.Kind(), Informer: requests.Informer(), Enqueues: enqueued, Resync: true}},
		Observe:   k.observe,
		Remember:  reconcile.Always[snapshot, struct{}, memory], // the memory is of what was asked
		Plan:      reconcile.PlanOnly(planApproval),
	}), nil
}

// enqueued returns the key of a request that may be approved (CSR-4, CSR-29), or that no longer may, so that nothing more is remembered of
// it.
func enqueued(before, after plan.Object) []plan.Key {
	return informers.ItselfIf(before, after, candidate)
}
