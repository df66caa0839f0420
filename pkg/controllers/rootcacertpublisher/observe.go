package rootcacertpublisher

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/files"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	namespaces informers.Store[*corev1.Namespace]
	configMaps informers.Store[*corev1.ConfigMap]
	bundle     *files.File[string]
	// restores says that the bundle is known to be right: it comes from --root-ca-file.
	restores bool
}

// observe finds the namespace, its ConfigMap, and what should be in it.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	o.Snapshot = snapshot{
		Namespace: k.namespaces.Get("", r.Key.Name),
		ConfigMap: k.configMaps.Get(r.Key.Name, configMapName),
		Bundle:    k.bundle.Get(),
		Restores:  k.restores,
		Began:     r.Now,
	}
	o.Exists = o.Snapshot.Namespace != nil
	return o, nil
}

// enqueueAll enqueues all namespaces.
func (k *caches) enqueueAll(enqueue func(plan.Key)) {
	for _, name := range k.namespaces.Informer().GetStore().ListKeys() {
		enqueue(plan.Key{Name: name})
	}
}
