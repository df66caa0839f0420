// Package legacyserviceaccounttokencleaner is the legacy token cleaner: it retires the tokens of service accounts that early versions of
// Kubernetes made by themselves, and that nobody has used for long.
package legacyserviceaccounttokencleaner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Controller returns the legacy token cleaner's entry in the registry.
func Controller() manager.Controller {
	o := &Options{Period: 365 * 24 * time.Hour}
	return manager.Controller{
		Name:    "legacy-serviceaccount-token-cleaner-controller",
		Alias:   "legacy-service-account-token-cleaner",
		Account: "legacy-service-account-token-cleaner",
		Options: o,
		Rights:  Rights,
		Fields:  cached(),
		Init:    o.init,
	}
}

// cached says that the controller reads nothing from caches. It works once a day, and reads live what it needs (LTC-13).
func cached() projection.Fields {
	all := projection.Fields{Kinds: map[schema.GroupVersionKind][]string{}}
	for _, kind := range []string{"Secret", "ServiceAccount", "Pod"} {
		all.Kinds[corev1.SchemeGroupVersion.WithKind(kind)] = []string{projection.MetadataOnly}
	}
	return all
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if err := o.periodError(); err != nil {
		return nil, err
	}
	k := &lists{period: o.Period, all: c.Shared.Verifier}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "legacy_service_account_token_cleaner",
		Workers: 1,
		Source:  reconcile.Keys(plan.Key{Name: "all"}),
		Period:  cycle, // LTC-2
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planTokens),
		Applied: applied,
	}), nil
}
