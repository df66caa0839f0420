package persistentvolumeexpander

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // claims that are reconciled at the same time
}

// New returns the persistentvolume-expander controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 10)
	return manager.Controller{
		Name:        "persistentvolume-expander-controller",
		Alias:       "persistentvolume-expander",
		Account:     "expand-controller",
		EventSource: "volume_expand",
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the controller works. Of volumes it reads to whom they belong and
// which plugin they have.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	claims, err1 := informers.Objects[*corev1.PersistentVolumeClaim](c.Informers,
		"spec.volumeName", "spec.resources.requests", "status.phase", "status.capacity",
		"metadata.annotations["+resizer+"]")
	volumes, err2 := informers.Objects[*corev1.PersistentVolume](c.Informers,
		"spec.claimRef", "spec.persistentVolumeSource.csi.driver",
		// Of the plugins that CSI drivers have taken over, it is enough that there is one.
		"spec.persistentVolumeSource.awsElasticBlockStore.volumeID",
		"spec.persistentVolumeSource.gcePersistentDisk.pdName",
		"spec.persistentVolumeSource.azureDisk.diskName", "spec.persistentVolumeSource.azureFile.shareName",
		"spec.persistentVolumeSource.cinder.volumeID", "spec.persistentVolumeSource.vsphereVolume.volumePath",
		"spec.persistentVolumeSource.portworxVolume.volumeID")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{claims: claims, volumes: volumes}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "volume_expand", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{claims.Kind().Kind},
		Watches:   []reconcile.Watch{claims.Watch(enqueuedByClaim), volumes.Watch(k.enqueuedByVolume)},
		Observe:   k.observe,
		Owner:     func(s snapshot) plan.Object { return s.Claim },
		Plan:      reconcile.PlanOnly(planHandOver),
		Remember:  reconcile.Always[snapshot, struct{}, memory], // it is what was seen
	}), nil
}
