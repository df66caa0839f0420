package serviceaccounttoken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/standalone-kcm/controller-manager/internal/credentials"
	"github.com/standalone-kcm/controller-manager/internal/files"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the serviceaccount-token controller. Without a key it is off, whatever --controllers
// says (CLI-56). Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "serviceaccount-token-controller",
		Alias:   "serviceaccount-token",
		Account: "tokens-controller",
		Root:    true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init reads the key and the certificate authorities, asks for the caches and says how the controller works.
// Without a key the controller is off.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if o.KeyFile == "" {
		return nil, manager.Off{
			Why: "there is no private key, see --service-account-private-key-file",
			Log: "Controller is disabled because there is no private key",
		}
	}
	key, err := files.Open(o.KeyFile, o.parseKey)
	if err != nil {
		return nil, fmt.Errorf("error reading key for service account token controller: %w", err)
	}
	bundle, err := credentials.OpenRootCA(c.RootCAFile, c.Config)
	if err != nil {
		return nil, err
	}
	tokens := fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken))
	secrets, err1 := informers.IndexedObjects(informers.Selecting(c.Informers, tokens), "service account", accountsOf)
	accounts, err2 := informers.Objects[*corev1.ServiceAccount](c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{secrets: secrets, accounts: accounts, key: key, bundle: bundle}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "serviceaccount_tokens", // the original has two queues, both of this name in metrics
		QueueName: "serviceaccount_tokens_service",
		Workers:   int(o.Workers),
		Explained: []string{"Secret"},
		Watches: []reconcile.Watch{
			secrets.Watch(enqueuedBySecret, informers.WithChanges),
			accounts.Watch(k.enqueuedByAccount),
		},
		Source:  k.follow,
		Observe: k.observe,
		Prove:   prove,
		Plan:    reconcile.PlanOnly(planSecret),
		Sign:    k.sign,
	}), nil
}

// follow enqueues all Secrets when the certificate authorities have changed. A new key is for new tokens only (TOK-13).
func (k *caches) follow(ctx context.Context, enqueue func(plan.Key)) {
	var both sync.WaitGroup
	both.Go(func() { k.key.Log(ctx) })
	both.Go(func() { k.bundle.Follow(ctx, func() { k.enqueueAll(enqueue) }) })
	both.Wait()
}

// parseKey reads the content of the key file.
func (o *Options) parseKey(content []byte) (*signingKey, error) {
	key, err := parseSigningKey(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.KeyFile, err)
	}
	return key, nil
}
