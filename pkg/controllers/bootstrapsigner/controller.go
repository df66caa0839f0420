package bootstrapsigner

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cluster-bootstrap/token/api"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are empty: nothing can be set of the controller.
type Options struct{}

// New returns the bootstrap signer. It has no flags (BOOT-3).
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:         "bootstrap-signer-controller",
		Alias:        "bootstrapsigner",
		Account:      "bootstrap-signer",
		OffByDefault: true,
		Rights:       Rights,
		Init:         o.init,
	}
}

// clusterInfo is the only key.
func clusterInfo() plan.Key {
	return plan.Key{Namespace: metav1.NamespacePublic, Name: api.ConfigMapClusterInfo}
}

// init asks for the caches and says how the controller works. What sign needs is not in the snapshot: it
// looks the Secrets up in the cache again.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "bootstrap_signer_queue", // of the queue
		Workers:   1,
		Explained: []string{"ConfigMap"},
		Watches: []reconcile.Watch{
			k.configMaps.Watch(enqueuedByConfigMap, informers.WithResync),
			k.secrets.Watch(enqueuedBySecret, informers.WithResync),
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planSignatures),
		Sign:    k.sign,
	}), nil
}

// selector selects the one ConfigMap (BOOT-34).
func selector() fields.Selector {
	key := clusterInfo()
	return fields.AndSelectors(fields.OneTermEqualSelector("metadata.namespace", key.Namespace),
		fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name))
}

// enqueuedByConfigMap returns the ConfigMap (BOOT-11), also if it is gone, so that nothing more is remembered of it.
func enqueuedByConfigMap(before, after plan.Object) []plan.Key {
	return informers.ItselfIf(before, after, func(m *corev1.ConfigMap) bool {
		return m.Namespace == clusterInfo().Namespace && m.Name == clusterInfo().Name
	})
}

// enqueuedBySecret returns the ConfigMap for each change of a bootstrap token, and when one is gone (BOOT-11, BOOT-32).
func enqueuedBySecret(before, after plan.Object) []plan.Key {
	if bootstraptoken.Is(before) || bootstraptoken.Is(after) {
		return []plan.Key{clusterInfo()}
	}
	return nil
}
