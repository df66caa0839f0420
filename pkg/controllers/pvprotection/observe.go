package pvprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	volumes informers.Store[*corev1.PersistentVolume]
}

// observe finds the volume.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	o.Snapshot.Volume = k.volumes.Get("", r.Key.Name)
	o.Exists = o.Snapshot.Volume != nil
	return o, nil
}
