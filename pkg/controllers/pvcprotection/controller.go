// Package pvcprotection is the persistentvolumeclaim-protection controller: a PersistentVolumeClaim that is deleted stays as long as a pod
// uses it.
package pvcprotection

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many namespaces are reconciled at the same time, so that a large one does not delay the others (SM-42).
const workers = 5

// Controller returns the entry of the persistentvolumeclaim-protection controller in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "persistentvolumeclaim-protection-controller",
		Alias:   "pvc-protection",
		Account: "pvc-protection-controller",
		Rights:  Rights,
		Fields:  cached(),
		Init:    initialize,
	}
}

func kind(name string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(name) }

// cached are what the controller reads. Claims are written back whole. Of an ephemeral volume it is enough that there is one.
func cached() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{
		kind("PersistentVolumeClaim"): {},
		kind("Pod"): {
			"spec.nodeName", "spec.volumes.name", "spec.volumes.volumeSource.persistentVolumeClaim.claimName",
			"spec.volumes.volumeSource.ephemeral.volumeClaimTemplate.metadata.name",
		},
	}}
}

// initialize builds the controller. Its keys are namespaces, so that one live list of pods serves all claims of a namespace (SM-34).
func initialize(c manager.Context) (manager.Runner, error) {
	claims, err1 := informers.IndexedObjects(c.Informers, "protection", due)
	pods, err2 := informers.PodsByClaim(c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{claims: claims, pods: pods}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:    "pvcprotection", // of the queue
		Workers: workers,
		Kinds:   []string{"Namespace"},
		Watches: []reconcile.Watch{
			{Kind: kind("PersistentVolumeClaim"), Informer: claims.Informer(), Enqueues: enqueuedByClaim, Resync: true},
			{Kind: kind("Pod"), Informer: pods.Informer(), Enqueues: k.enqueuedByPod},
		},
		Observe:  k.observe,
		Remember: reconcile.Always[snapshot, struct{}, memory], // it is what was seen
		Plan:     reconcile.PlanOnly(planClaims),
	}), nil
}
