package legacyserviceaccounttokencleaner

import (
	"cmp"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the legacy token cleaner. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Period = cmp.Or(o.Period, 365*24*time.Hour)
	return manager.Controller{
		Name:    "legacy-serviceaccount-token-cleaner-controller",
		Alias:   "legacy-service-account-token-cleaner",
		Account: "legacy-service-account-token-cleaner",
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init says how the controller works: a single key, by the clock. What it lists, it lists as whoever fills
// the caches.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if err := o.periodError(); err != nil {
		return nil, err
	}
	k := &lists{period: o.Period, all: c.Shared.Verifier}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "legacy_service_account_token_cleaner",
		Workers: 1,
		Source:  reconcile.Keys(plan.Key{Name: "all"}),
		Period:  cycle,
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planTokens),
		Applied: applied,
	}), nil
}
