package storageversiongc

import (
	"errors"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are empty: nothing can be set of the controller.
type Options struct{}

// New returns the storage version garbage collector.
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:    "storageversion-garbage-collector-controller",
		Alias:   "storage-version-gc",
		Account: "storage-version-garbage-collector",
		Rights:  Rights,
		Init:    o.init,
		Gates:   []string{"APIServerIdentity", "StorageVersionAPI"},
		Needs:   []schema.GroupVersionResource{apiserverinternalv1alpha1.SchemeGroupVersion.WithResource(resource)},
	}
}

// init asks for the caches and says how the controller works. Of Leases only those are cached that are where API
// servers have theirs.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	home := fields.OneTermEqualSelector("metadata.namespace", metav1.NamespaceSystem)
	versions, err1 := informers.IndexedObjects(c.Informers, "API server", serversOf, "status")
	leases, err2 := informers.Objects[*coordinationv1.Lease](informers.Selecting(c.Informers, home),
		informers.MetadataOnly)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{versions, leases}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "storage_version_garbage_collector_storageversions",
		Workers:   1,
		Explained: []string{versions.Kind().Kind},
		Watches: []reconcile.Watch{
			versions.Watch(informers.Itself, informers.WithResync),
			leases.Watch(k.enqueuedByLease),
		},
		Observe:          k.observe,
		Plan:             reconcile.PlanOnly(planEntries),
		Prove:            prove,
		SkipVerification: true, // the version is a precondition of each write
	}), nil
}
