package serviceaccounttoken

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/files"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	secrets  informers.IndexedStore[*corev1.Secret] // of the type for tokens, by the ServiceAccount that they name
	accounts informers.Store[*corev1.ServiceAccount]
	key      *files.File[*signingKey]
	bundle   *files.File[string]
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, struct{}]

// observe finds the Secret and its ServiceAccount, and which data the Secret lacks.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (observation, error) {
	secret := k.secrets.Get(r.Key.Namespace, r.Key.Name)
	if secret == nil {
		return k.observeGone(r), nil
	}
	o := observation{Exists: true,
		Snapshot: snapshot{Secret: metadataOf(secret), Missing: missingKeys(secret.Data, k.bundle.Get())}}
	if accountName(secret) == "" || secret.DeletionTimestamp != nil {
		return o, nil
	}
	o.Snapshot.Account = k.accounts.Get(secret.Namespace, accountName(secret))
	return o, nil
}

// metadataOf returns the metadata of a Secret, which belong to the cache as before.
func metadataOf(s *corev1.Secret) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: s.ObjectMeta}
	o.SetGroupVersionKind(client.KindFor[*corev1.Secret]())
	return o
}

// prove puts the ServiceAccount as it was read live in the place of what the cache has shown.
func prove(o observation, proof reconcile.Proof) observation {
	if live, ok, _ := reconcile.Found[*corev1.ServiceAccount](proof, accountOf(o.Snapshot.Secret)); ok {
		cached := o.Snapshot.Account
		o.Snapshot.Account, o.Snapshot.Unseen = live, live != nil && (cached == nil || cached.UID != live.UID)
	}
	return o
}

// observeGone finds the ServiceAccount that may still refer to a Secret that was deleted (TOK-11).
func (k *caches) observeGone(r reconcile.Request[struct{}]) (o observation) {
	for _, c := range r.Changes {
		gone, ok := c.Before.(*corev1.Secret)
		if c.After != nil || !ok || accountUID(gone) == "" {
			continue
		}
		if a := k.accounts.Get(gone.Namespace, accountName(gone)); a != nil && a.UID == accountUID(gone) {
			o = observation{Exists: true, Snapshot: snapshot{Gone: gone.Name, Account: a}}
		}
	}
	return o
}

// enqueueAll enqueues all Secrets.
func (k *caches) enqueueAll(enqueue func(plan.Key)) {
	for s := range k.secrets.All() {
		enqueue(plan.KeyOf(s))
	}
}
