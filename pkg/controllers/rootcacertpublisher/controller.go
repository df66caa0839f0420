package rootcacertpublisher

import (
	"cmp"
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/credentials"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// queue is the name of the queue in metrics, and of the metrics of its own.
const queue = "root_ca_cert_publisher"

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // namespaces that are reconciled at the same time
}

// New returns the root CA certificate publisher. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "root-ca-certificate-publisher-controller",
		Alias:   "root-ca-cert-publisher",
		Account: "root-ca-cert-publisher",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init finds the authorities, asks for the caches and says how the controller works. Of ConfigMaps only those
// of the one name are cached.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	bundle, err := credentials.OpenRootCA(c.RootCAFile, c.Config)
	if err != nil {
		return nil, err
	}
	if bundle.Get() == "" { // RCA-3: nothing is better than an empty bundle
		return nil, manager.Off{Why: "neither --root-ca-file nor the kubeconfig has certificate authorities to publish"}
	}
	ours := fields.OneTermEqualSelector(metav1.ObjectNameField, configMapName)
	namespaces, err1 := informers.Objects[*corev1.Namespace](c.Informers, "status.phase")
	configMaps, err2 := informers.Objects[*corev1.ConfigMap](informers.Selecting(c.Informers, ours))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{
		namespaces: namespaces, configMaps: configMaps, bundle: bundle,
		restores: credentials.AuthoritativeRootCA(c.RootCAFile),
	}
	from, subjects := credentials.DescribeRootCA(c.RootCAFile, c.Config, bundle.Get())
	klog.Background().Info("Publishing the certificate authorities of the API server", "from", from, "subjects",
		subjects, "changesExisting", k.restores)
	own := credentials.NewSyncMetrics(queue, "namespaces")
	c.RegisterMetrics(own.All()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      queue,
		Workers:   int(o.Workers),
		Explained: []string{"Namespace"},
		Watches: []reconcile.Watch{
			namespaces.Watch(informers.Existing, informers.WithResync),
			configMaps.Watch(enqueuedByConfigMap, informers.WithResync),
		},
		Source: func(ctx context.Context, enqueue func(plan.Key)) {
			bundle.Follow(ctx, func() { k.enqueueAll(enqueue) })
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planConfigMap),
		Applied: func(_ context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) { own.Count(s.Began, did.Err) },
	}), nil
}
