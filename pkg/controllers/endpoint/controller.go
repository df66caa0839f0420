package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Init builds the endpoint controller.
func Init(c manager.Context) (manager.Runner, error) {
	services, err1 := informers.Services(c.Informers)
	endpoints, err2 := informers.Endpoints(c.Informers)
	pods, err3 := informers.PodsByLabels(c.Informers)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{services: services, endpoints: endpoints, pods: pods, triggers: newTriggers(), exists: asker(c.Access.API)}
	return &runner{k.triggers, engine.New(c.Shared, c.Access, engine.Controller[snapshot]{
		Name:    "endpoint", // of the queue (CI-33)
		Workers: c.Config.Endpoint.Workers,
		Kinds:   []string{"Service", "Endpoints"},
		Watches: []engine.Watch{
			{Kind: kind("Service"), Informer: services.Informer(), Wakes: informers.Itself, Resync: true}, // EP-1
			{Kind: kind("Pod"), Informer: pods.Informer(), Wakes: k.wokenByPod, Delay: c.Config.Endpoint.BatchPeriod},
			{Kind: kind("Endpoints"), Informer: endpoints.Informer(), Wakes: wokenByEndpoints, Ignore: foreign},
		},
		Observe: k.observe,
		Owner:   owner,
		Free:    true, // Endpoints have no owner (EP-28)
		Plan:    planEndpoints,
		Measure: k.learn,
	})}, nil
}

// runner begins each term of leadership as a new process would.
type runner struct {
	triggers *triggers
	*engine.Runner[snapshot]
}

func (r *runner) Run(ctx context.Context) error {
	r.triggers.reset()
	return r.Runner.Run(ctx)
}

// caches are what the controller looks at, and what it remembers of earlier looks.
type caches struct {
	services  informers.ServiceCache
	endpoints informers.EndpointsCache
	pods      informers.LabeledPodCache
	triggers  *triggers
	exists    func(context.Context, plan.Key) (bool, error) // asks the server whether there is such a service
}

// observe finds the service, its pods and its Endpoints. Before Endpoints are taken for left over, the server is asked:
// the caches of services and of Endpoints may differ in age, and those of a living service must not vanish for that.
func (k *caches) observe(ctx context.Context, key plan.Key) (snapshot, bool, error) {
	s := snapshot{key: key, service: k.services.Get(key.Namespace, key.Name), endpoints: k.endpoints.Get(key.Namespace, key.Name)}
	if s.service == nil {
		k.triggers.forget(key) // EP-31
		if s.endpoints == nil {
			return s, false, nil
		}
		exists, err := k.exists(ctx, key)
		if err == nil && exists {
			err = fmt.Errorf("%w: the cache lacks the service", plan.ErrStale)
		}
		return s, true, err
	}
	if s.service.Spec.Selector == nil || s.service.Spec.Type == corev1.ServiceTypeExternalName {
		return s, true, nil
	}
	s.pods = k.pods.Selected(key.Namespace, s.service.Spec.Selector)
	s.trigger = k.triggers.next(key, s.service, s.pods)
	return s, true, nil
}

// learn keeps the time of a change that could not be written, so that the write that succeeds tells of it.
func (k *caches) learn(s snapshot, did plan.Outcome) {
	if did.Err != nil && !s.trigger.IsZero() {
		k.triggers.keep(s.key, s.trigger)
	}
}

// asker returns a function that asks the server for a service. A role that does not let us (RB-12) leaves us the cache.
func asker(api engine.API) func(context.Context, plan.Key) (bool, error) {
	services := engine.Kind{GroupVersionKind: kind("Service"), Resource: "services",
		New: func() plan.Object { return &corev1.Service{} }}
	return func(ctx context.Context, key plan.Key) (bool, error) {
		_, err := api.Get(ctx, services, key.Namespace, key.Name)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("is there a service %s: %w", key, err)
		}
		return true, nil
	}
}

// owner is what events are about: the Endpoints, in the service's namespace even before they exist (EP-38).
func owner(s snapshot) plan.Object {
	if s.endpoints != nil {
		return s.endpoints
	}
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
}
