package selinuxwarning

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // volumes that are reconciled at the same time
}

// New returns the selinux-warning-controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 1)
	return manager.Controller{
		Name:         "selinux-warning-controller",
		Account:      "selinux-warning-controller",
		EventSource:  "selinux_warning",
		OffByDefault: true,
		Rights:       Rights,
		Init:         o.init,
	}
}

// init asks for the caches and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	c.RegisterMetrics(newConflictMetric(k))
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:    "selinux_warning", // of the queue
		Workers: int(o.Workers),
		Watches: []reconcile.Watch{
			k.byClaim.Watch(k.enqueuedByPod), k.claims.Watch(k.enqueuedByClaim), k.volumes.Watch(k.enqueuedByVolume),
			k.drivers.Watch(k.enqueuedByDriver),
		},
		Term:             k.conflicts,
		Observe:          k.observe,
		Plan:             planEvents,
		Planned:          k.keep,
		Remember:         reconcile.RememberOutcome(remember),
		SkipVerification: true, // it writes nothing but events
	}), nil
}

// sources are the kinds of volumes besides CSI that may be mounted with a label, and those that a CSI driver has taken
// over, as pods and PersistentVolumes call them.
func sources() []string {
	return []string{"iscsi", "fc", "awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "azureFile", "cinder",
		"vsphereVolume", "portworxVolume"}
}

// podPaths are the fields that are read of pods.
func podPaths() []string {
	paths := []string{
		"status.phase", "spec.securityContext.seLinuxOptions", "spec.securityContext.seLinuxChangePolicy",
		"spec.volumes.name", "spec.volumes.volumeSource.persistentVolumeClaim.claimName",
		"spec.volumes.volumeSource.ephemeral.volumeClaimTemplate.metadata.name", // it is enough that there is one
		"spec.ephemeralContainers", // of which no part can be asked for
	}
	for _, containers := range []string{"spec.initContainers", "spec.containers"} {
		paths = append(paths, containers+".name", containers+".volumeMounts.name",
			containers+".securityContext.seLinuxOptions")
	}
	for _, source := range sources() {
		paths = append(paths, "spec.volumes.volumeSource."+source)
	}
	return paths
}

// newCaches asks for the caches. Pods and PersistentVolumes have an index by the names of volumes and by their drivers.
func newCaches(f *informers.Factory) (*caches, error) {
	fields := informers.PodFields{Paths: podPaths()}
	paths := []string{"spec.claimRef", "spec.persistentVolumeSource.csi.driver",
		"spec.persistentVolumeSource.csi.volumeHandle"}
	for _, source := range sources() {
		paths = append(paths, "spec.persistentVolumeSource."+source)
	}
	k := &caches{conflicts: newTerm()}
	var errs [5]error
	k.byClaim, errs[0] = informers.PodsByClaim(f, fields)
	k.byVolume, errs[1] = informers.IndexedPods(f, indexName, indexPod, fields)
	k.claims, errs[2] = informers.Objects[*corev1.PersistentVolumeClaim](f, "spec.volumeName", "status.phase")
	k.volumes, errs[3] = informers.IndexedObjects(f, indexName, indexVolume, paths...)
	k.drivers, errs[4] = informers.Objects[*storagev1.CSIDriver](f, "spec.seLinuxMount")
	return k, errors.Join(errs[:]...)
}
