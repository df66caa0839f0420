package vacprotection

import (
	"cmp"
	"errors"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // classes that are reconciled at the same time
}

// New returns the volumeattributesclass-protection controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 1)
	return manager.Controller{
		Name:    "volumeattributesclass-protection-controller",
		Account: "volumeattributesclass-protection-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the caches and says how the controller works. Claims and volumes have an index by the classes
// that they refer to.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	classes, err1 := informers.Objects[*storagev1.VolumeAttributesClass](c.Informers)
	claims, err2 := informers.IndexedObjects(c.Informers, "attributes class", classesOfClaim,
		"spec.volumeAttributesClassName", "status.currentVolumeAttributesClassName",
		"status.modifyVolumeStatus.targetVolumeAttributesClassName")
	volumes, err3 := informers.IndexedObjects(c.Informers, "attributes class", classesOfVolume,
		"spec.volumeAttributesClassName")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{classes: classes, claims: claims, volumes: volumes}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "vacprotection", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{classes.Kind().Kind},
		Watches: []reconcile.Watch{
			classes.Watch(protection.Enqueues, informers.WithResync),
			claims.Watch(func(before, after plan.Object) []plan.Key {
				return k.enqueuedByUser(ofClaim(before),
					ofClaim(after))
			}),
			volumes.Watch(func(before, after plan.Object) []plan.Key {
				return k.enqueuedByUser(ofVolume(before),
					ofVolume(after))
			}),
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planFinalizer),
		Owner:   func(s snapshot) plan.Object { return s.Class },
	}), nil
}
