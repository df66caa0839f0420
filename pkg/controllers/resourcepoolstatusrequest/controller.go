package resourcepoolstatusrequest

import (
	"cmp"
	"errors"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // requests that are reconciled at the same time
}

// New returns the resourcepoolstatusrequest controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 1)
	return manager.Controller{
		Name:    "resourcepoolstatusrequest-controller",
		Account: "resourcepoolstatusrequest-controller",
		Gates:   []string{"DRAResourcePoolStatus"},
		Needs: []schema.GroupVersionResource{
			resourcev1alpha3.SchemeGroupVersion.WithResource("resourcepoolstatusrequests"),
			resourcev1.SchemeGroupVersion.WithResource("resourceslices"),
			resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
		},
		Uses:   []schema.GroupVersionResource{resourcev1.SchemeGroupVersion.WithResource("devicetaintrules")},
		Rights: Rights,
		Init:   o.init,
	}
}

// init asks for the caches and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:      "resourcepoolstatusrequest",
		Workers:   int(o.Workers),
		Explained: []string{k.requests.Kind().Kind},
		Watches: []reconcile.Watch{
			k.requests.Watch(informers.Itself, informers.WithResync), k.slices.Watch(k.enqueuedBySlice),
			k.claims.Watch(informers.None), k.rules.Watch(informers.None),
		},
		Observe:  k.observe,
		Prove:    k.prove,
		Plan:     planAnswer,
		Report:   reportAnswer,
		Remember: reconcile.Always[snapshot, decision, memory], // it is what was seen
		Applied:  own.applied,
		Owner:    func(s snapshot) plan.Object { return s.Request },
		Subject:  func(s snapshot) types.UID { return s.Request.UID },
	}), nil
}

// newCaches asks for the caches. All but rules have an index by driver.
func newCaches(f *informers.Factory) (*caches, error) {
	const index = "driver"
	k := &caches{}
	var errs [4]error
	k.requests, errs[0] = informers.IndexedObjects(f, "unanswered by "+index, unansweredOf)
	k.slices, errs[1] = informers.IndexedObjects(f, index, driverOf, "spec.driver", "spec.pool", "spec.nodeName",
		"spec.sharedCounters", "spec.partitionTypeAttribute", "spec.devices.name", "spec.devices.attributes",
		"spec.devices.capacity", "spec.devices.consumesCounters", "spec.devices.taints",
		"spec.devices.allowMultipleAllocations")
	k.claims, errs[2] = informers.IndexedObjects(f, index, driversOf, "status.allocation.devices.results.driver",
		"status.allocation.devices.results.pool", "status.allocation.devices.results.device",
		"status.allocation.devices.results.adminAccess", "status.allocation.devices.results.consumedCapacity")
	k.rules, errs[3] = informers.Objects[*resourcev1.DeviceTaintRule](f, "spec")
	return k, errors.Join(errs[:]...)
}
