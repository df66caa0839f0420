package clustertrustbundlepublisher

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/credentials"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	queue     = "ca_cert_publisher_cluster_trust_bundles" // the name of the queue in metrics
	subsystem = "clustertrustbundle_publisher"            // that of the metrics of its own (CTB-5)
)

// Options are empty: nothing can be set of the controller.
type Options struct{}

// New returns the publisher.
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
		Account: "kube-apiserver-serving-clustertrustbundle-publisher",
		Rights:  Rights,
		Init:    o.init,
		Gates:   []string{"ClusterTrustBundle"},
		Needs:   []schema.GroupVersionResource{certificatesv1.SchemeGroupVersion.WithResource(resource)},
	}
}

// init finds the authorities, asks for the cache and says how the controller works. Only bundles of the signer are
// cached (CTB-2).
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	authorities, err := credentials.OpenRootCA(c.RootCAFile, c.Config)
	if err != nil {
		return nil, err
	}
	if authorities.Get() == "" {
		return nil, manager.Off{Why: "neither --root-ca-file nor the kubeconfig has certificate authorities to publish"}
	}
	ofSigner := informers.Selecting(c.Informers, fields.OneTermEqualSelector("spec.signerName", signer))
	bundles, err := informers.Objects[*certificatesv1.ClusterTrustBundle](ofSigner)
	if err != nil {
		return nil, err
	}
	k := &caches{bundles, authorities, credentials.AuthoritativeRootCA(c.RootCAFile)}
	from, subjects := credentials.DescribeRootCA(c.RootCAFile, c.Config, authorities.Get())
	klog.Background().Info("Publishing the certificate authorities of the API server as a ClusterTrustBundle", "from",
		from, "subjects", subjects, "deletesOthers", k.authoritative)
	own := credentials.NewSyncMetrics(subsystem, "ClusterTrustBundles")
	c.RegisterMetrics(own.All()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      queue,
		Workers:   1,
		Explained: []string{bundles.Kind().Kind},
		Watches:   []reconcile.Watch{bundles.Watch(enqueued, informers.WithResync)},
		Source: func(ctx context.Context, enqueue func(plan.Key)) {
			enqueue(key)
			authorities.Follow(ctx, func() { enqueue(key) })
		},
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planBundle),
		Applied: func(_ context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) { own.Count(s.Began, did.Err) },
	}), nil
}
