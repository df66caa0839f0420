package serviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	namespaces informers.Store[*corev1.Namespace]
	accounts   informers.Store[*corev1.ServiceAccount]
}

// observe finds the namespace and its ServiceAccount.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	o.Snapshot = snapshot{
		Namespace: k.namespaces.Get("", r.Key.Name),
		Account:   k.accounts.Get(r.Key.Name, defaultName),
	}
	o.Exists = o.Snapshot.Namespace != nil
	return o, nil
}
