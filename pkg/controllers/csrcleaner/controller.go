package csrcleaner

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are empty: nothing can be set of the controller.
type Options struct{}

// New returns the cleaner.
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:    "certificatesigningrequest-cleaner-controller",
		Alias:   "csrcleaner",
		Account: "certificate-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the cache of requests, without what is asked for, and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	requests, err := informers.Objects[*csrutil.Request](c.Informers, "status.conditions", "status.certificate")
	if err != nil {
		return nil, err
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "certificate_cleaner",
		Workers:   1,
		Explained: []string{requests.Kind().Kind},
		Watches:   []reconcile.Watch{requests.Watch(informers.Itself, informers.WithResync)},
		Observe:   (&caches{requests}).observe,
		Plan:      reconcile.PlanOnly(planDeletion),
		Applied:   applied,
	}), nil
}

// applied logs what was deleted (CSR-42).
func applied(ctx context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	for _, r := range did.Results {
		if r.Err != nil || r.Needless {
			continue
		}
		e, _ := s.first()
		klog.FromContext(ctx).Info("Deleted a request for a certificate", "csr", s.Request.Name, "reason", e.Why)
	}
}
