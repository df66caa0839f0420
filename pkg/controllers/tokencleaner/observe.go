package tokencleaner

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	secrets informers.Store[*corev1.Secret] // of bootstrap tokens
}

// newCaches asks for the cache of the Secrets of bootstrap tokens. Other Secrets are not cached.
func newCaches(f *informers.Factory) (*caches, error) {
	secrets, err := informers.Objects[*corev1.Secret](informers.Selecting(f, bootstraptoken.Selector()),
		bootstraptoken.Fields()...)
	return &caches{secrets}, err
}

// observe finds the Secret, without what it holds, and when its token expires.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	secret := k.secrets.Get(r.Key.Namespace, r.Key.Name)
	if secret == nil {
		return o, nil
	}
	expires, readable := bootstraptoken.Expiration(secret)
	o.Exists = true
	o.Snapshot = snapshot{Secret: &corev1.Secret{ObjectMeta: secret.ObjectMeta, Type: secret.Type}, Expires: expires,
		Unreadable: !readable}
	return o, nil
}
