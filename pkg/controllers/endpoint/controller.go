package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Controller returns the endpoint controller's entry in the registry.
func Controller() manager.Controller {
	o := &Options{Workers: 5}
	return manager.Controller{
		Name:    "endpoints-controller",
		Alias:   "endpoint",
		Account: "endpoint-controller",
		Beside:  true,
		Options: o,
		Rights:  Rights,
		Fields:  fields(),
		Init:    o.init,
		Off:     o.initCleanup,
	}
}

// fields are what the controller reads. Endpoints are written back whole.
func fields() projection.Fields {
	return projection.Fields{
		Kinds: map[schema.GroupVersionKind][]string{
			kind("Service"): {"spec"},
			kind("Pod"):     endpoints.PodPaths(),
		},
		PodCondition: projection.ReadyCondition,
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	services, err1 := informers.Services(c.Informers)
	stored, err2 := informers.Objects[*corev1.Endpoints](c.Informers)
	pods, err3 := informers.PodsByLabels(c.Informers)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{services: services, endpoints: stored, pods: pods}
	batchPeriod := func(plan.Key) time.Duration { return o.BatchPeriod }
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, endpoints.Times]{
		Name:    "endpoint", // of the queue (CI-33)
		Workers: int(o.Workers),
		Kinds:   []string{"Service", "Endpoints"},
		Watches: []reconcile.Watch{
			{Kind: kind("Service"), Informer: services.Informer(), Enqueues: informers.Itself, Resync: true}, // EP-1
			{Kind: kind("Pod"), Informer: pods.Informer(), Enqueues: k.enqueuedByPod, Delay: batchPeriod},
			{Kind: kind("Endpoints"), Informer: stored.Informer(), Enqueues: enqueuedByEndpoints, Ignore: foreign},
		},
		Observe:          k.observe,
		Owner:            owner,
		Unowned:          true, // Endpoints have no owner (EP-28)
		SkipVerification: true, // their version is a precondition of each write
		Plan:             reconcile.PlanOnly(planEndpoints),
	}), nil
}

// owner is what events are about: the Endpoints, in the service's namespace even before they exist (EP-38).
func owner(s snapshot) plan.Object {
	if s.Endpoints != nil {
		return s.Endpoints
	}
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
}
