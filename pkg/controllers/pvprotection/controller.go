package pvprotection

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // volumes that are reconciled at the same time
}

// New returns the persistentvolume-protection controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "persistentvolume-protection-controller",
		Alias:   "pv-protection",
		Account: "pv-protection-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the cache of volumes and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	volumes, err := informers.Objects[*corev1.PersistentVolume](c.Informers)
	if err != nil {
		return nil, err
	}
	k := &caches{volumes: volumes}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "pvprotection", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{volumes.Kind().Kind},
		Watches:   []reconcile.Watch{volumes.Watch(protection.Enqueues, informers.WithResync)},
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planFinalizer),
		Owner:     func(s snapshot) plan.Object { return s.Volume },
	}), nil
}
