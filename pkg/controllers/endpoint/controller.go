package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the endpoint controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "endpoints-controller",
		Alias:   "endpoint",
		Account: "endpoint-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
		Instead: o.initCleanup,
	}
}

// init asks for the caches and says how the controller works. Of pods it reads what their addresses and
// readiness depend on.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	services, err1 := informers.Services(c.Informers, "spec")
	stored, err2 := informers.Objects[*corev1.Endpoints](c.Informers)
	read := informers.PodFields{Paths: endpoints.PodPaths(), Condition: informers.ReadyCondition}
	pods, err3 := informers.PodsByLabels(c.Informers, read)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{services: services, endpoints: stored, pods: pods, large: largeService}
	batchPeriod := func(plan.Key) time.Duration { return o.BatchPeriod }
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, found, memory]{
		Name:      "endpoint", // of the queue (CI-33)
		Workers:   int(o.Workers),
		Explained: []string{"Service", "Endpoints"},
		Watches: []reconcile.Watch{
			// a resync has all pods looked at
			services.Watch(informers.Itself, informers.WithResync, informers.WithChanges),
			pods.Watch(k.enqueuedByPod, informers.WithDelay(batchPeriod), informers.WithNews),
			stored.Watch(enqueuedByEndpoints, informers.Ignoring(foreign)),
		},
		Observe:          k.observe,
		Owner:            owner,
		SkipVerification: true, // their version is a precondition of each write
		Plan:             planEndpoints,
		Remember:         k.remember,
	}), nil
}

// owner is what events are about: the Endpoints, in the service's namespace even before they exist (EP-38).
func owner(s snapshot) plan.Object {
	if s.Endpoints != nil {
		return s.Endpoints
	}
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
}
