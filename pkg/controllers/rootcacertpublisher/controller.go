// Package rootcacertpublisher is the root CA certificate publisher: each namespace has a ConfigMap with the certificate authorities by
// which its pods verify the API server.
package rootcacertpublisher

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/rootca"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many namespaces are reconciled at the same time.
const workers = 5

// Controller returns the entry of the root CA certificate publisher in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "root-ca-certificate-publisher-controller",
		Alias:   "root-ca-cert-publisher",
		Account: "root-ca-cert-publisher",
		Rights:  Rights,
		Fields:  cached(),
		Init:    initialize,
	}
}

// cached are the fields that the controller reads. ConfigMaps are written back whole; those of other names are not cached (RCA-12).
func cached() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{
		kind("Namespace"): {"status.phase"}, // RCA-4
		kind("ConfigMap"): {},
	}}
}

func initialize(c manager.Context) (manager.Runner, error) {
	bundle, err := rootca.Open(c.Config.RootCAFile, c.Config.Client)
	if err != nil {
		return nil, err
	}
	if bundle.Get() == "" { // RCA-3: nothing is better than an empty bundle
		return nil, manager.Skip("neither --root-ca-file nor the kubeconfig has certificate authorities to publish")
	}
	ours := fields.OneTermEqualSelector(metav1.ObjectNameField, configMapName)
	namespaces, err1 := informers.Objects[*corev1.Namespace](c.Informers)
	configMaps, err2 := informers.Objects[*corev1.ConfigMap](informers.Selecting(c.Informers, ours))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{namespaces: namespaces, configMaps: configMaps, bundle: bundle, restores: rootca.Authoritative(c.Config.RootCAFile)}
	from, subjects := rootca.Describe(c.Config.RootCAFile, c.Config.Client, bundle.Get())
	klog.Background().Info("Publishing the certificate authorities of the API server", "from", from, "subjects", subjects, "changesExisting", k.restores)
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "root_ca_cert_publisher", // of the queue
		Workers: workers,
		Kinds:   []string{"Namespace"},
		Watches: []reconcile.Watch{
			{Kind: kind("Namespace"), Informer: namespaces.Informer(), Enqueues: enqueuedByNamespace, Resync: true},
			{Kind: kind("ConfigMap"), Informer: configMaps.Informer(), Enqueues: enqueuedByConfigMap, Resync: true},
		},
		Source: func(ctx context.Context, enqueue func(plan.Key)) {
			bundle.Follow(ctx, func() { k.enqueueAll(enqueue) })
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planConfigMap),
		Applied: own.applied,
	}), nil
}
