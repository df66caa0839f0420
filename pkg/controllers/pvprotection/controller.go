// Package pvprotection is the persistentvolume-protection controller: a PersistentVolume that is deleted stays as long as it is bound to a
// claim.
package pvprotection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many volumes are reconciled at the same time.
const workers = 5

// Controller returns the entry of the persistentvolume-protection controller in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "persistentvolume-protection-controller",
		Alias:   "pv-protection",
		Account: "pv-protection-controller",
		Rights:  Rights,
		Fields:  fields(),
		Init:    initialize,
	}
}

func kind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("PersistentVolume") }

// fields are what the controller reads. Volumes are written back whole.
func fields() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{kind(): {}}}
}

func initialize(c manager.Context) (manager.Runner, error) {
	volumes, err := informers.Objects[*corev1.PersistentVolume](c.Informers)
	if err != nil {
		return nil, err
	}
	k := &caches{volumes: volumes}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "pvprotection", // of the queue
		Workers: workers,
		Kinds:   []string{kind().Kind},
		Watches: []reconcile.Watch{{Kind: kind(), Informer: volumes.Informer(), Enqueues: enqueued, Resync: true}},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planFinalizer),
		Owner:   func(s snapshot) plan.Object { return s.Volume },
	}), nil
}

// enqueued returns a volume of which the finalizer is to be added, or may have to be taken off (SM-21), and one that is gone, so that
// nothing of it is remembered.
func enqueued(before, after plan.Object) []plan.Key {
	if after != nil && !protection.Due(after) {
		return nil
	}
	return informers.Itself(before, after)
}
