package validatingadmissionpolicystatus

import (
	"cmp"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// name is that of the controller and of its account.
const name = "validatingadmissionpolicy-status-controller"

// New returns the validatingadmissionpolicy-status-controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    name,
		Account: name,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the cache of policies and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	policies, err := informers.IndexedObjects(c.Informers, "custom groups", customGroups,
		"spec.matchConstraints.resourceRules", "spec.paramKind", "spec.validations", "spec.variables",
		"status.observedGeneration", "status.typeChecking")
	if err != nil {
		return nil, err
	}
	k := &caches{policies: policies, published: newTerm()}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, struct{}]{
		Name:             name,
		QueueName:        "validatingadmissionpolicy-status",
		Workers:          int(o.Workers),
		Explained:        []string{policies.Kind().Kind},
		Watches:          []reconcile.Watch{policies.Watch(informers.Itself, informers.WithResync)},
		Source:           k.followDefinitions(c.Metadata),
		Term:             k.published,
		Observe:          k.observe,
		Plan:             planCheck,
		Planned:          k.keep,
		Report:           reportWarnings,
		Owner:            func(s snapshot) plan.Object { return s.Policy },
		SkipVerification: true, // the version is a precondition of the only write
	}), nil
}
