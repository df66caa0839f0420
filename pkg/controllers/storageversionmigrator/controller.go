package storageversionmigrator

import (
	"cmp"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// name is that of the controller, of its account, of its queue, and of who touches objects.
const name = "storage-version-migrator-controller"

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // migrations that are carried out at the same time, each of another resource
}

// New returns the storage-version-migrator-controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    name,
		Alias:   "svm",
		Account: name,
		Rights:  Rights,
		Init:    o.init,
		Gates:   []string{"StorageVersionMigrator"}, // V37-12
		Needs:   []schema.GroupVersionResource{migrationv1.SchemeGroupVersion.WithResource("storageversionmigrations")},
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	clients, err := c.Clients.Faster(20, 100) // an object is a request
	if err != nil {
		return nil, err
	}
	access := c.Access
	access.Client = clients.Client()
	return o.build(c, access, clients.Mapper().PreferredResources)
}

// build asks for the cache of migrations and says how the controller works.
func (o *Options) build(c manager.Context, access reconcile.Access, resources finder) (manager.Runner, error) {
	migrations, err := informers.IndexedObjects(c.Informers, "resource", resourceOf, "spec.resource", "status")
	if err != nil {
		return nil, err
	}
	k := &caches{migrations: migrations, resources: resources}
	return reconcile.New(c.Shared, access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      name,
		Workers:   int(o.Workers),
		Explained: []string{migrations.Kind().Kind},
		Watches:   []reconcile.Watch{migrations.Watch(k.enqueued, informers.WithResync)},
		Source:    leftovers(client.ReadOnly(access.Client)),
		Observe:   k.observe,
		Plan:      reconcile.PlanOnly(planMigration),
		Report:    reconcile.ReportOnly[snapshot, struct{}](reportStatus),
		Remember:  remember,
		Owner:     owner,
	}), nil
}

// owner is the migration; nil for a CustomResourceDefinition.
func owner(s snapshot) plan.Object {
	if s.Migration == nil {
		return nil
	}
	return s.Migration
}
