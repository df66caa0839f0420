package tokencleaner

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are empty: nothing can be set of the controller.
type Options struct{}

// New returns the token cleaner. It has no flags (BOOT-3).
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:         "token-cleaner-controller",
		Alias:        "tokencleaner",
		Account:      "token-cleaner",
		OffByDefault: true,
		Rights:       Rights,
		Init:         o.init,
	}
}

// init asks for the cache of tokens and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "token_cleaner", // of the queue
		Workers:   1,
		Explained: []string{"Secret"},
		Watches:   []reconcile.Watch{k.secrets.Watch(enqueuedBySecret, informers.WithResync)},
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planDeletion),
		Applied:   applied,
	}), nil
}

// enqueuedBySecret returns a bootstrap token, whatever its name is (BOOT-23). One that is gone is enqueued too, so
// that nothing more is remembered of it.
func enqueuedBySecret(before, after plan.Object) []plan.Key {
	return informers.ItselfIf(before, after, bootstraptoken.Is)
}

// applied logs which tokens were deleted although nobody knows when they expire (BOOT-31). Others go as their owners
// have asked.
func applied(ctx context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	for _, r := range did.Results {
		if r.Err == nil && !r.Needless && s.Unreadable {
			klog.FromContext(ctx).Info(
				"Deleted a bootstrap token because its expiration is no time in the form of RFC 3339", "secret",
				klog.KObj(s.Secret))
		}
	}
}
