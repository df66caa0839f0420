package disruption

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many keys of a queue are processed at the same time: one that waits for the scale of an owner must not keep the
// others.
const workers = 5

var (
	podKind        = corev1.SchemeGroupVersion.WithKind("Pod")
	budgetKind     = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	controllerKind = corev1.SchemeGroupVersion.WithKind("ReplicationController")
	setKind        = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	statefulKind   = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
)

// Controller returns the disruption controller's entry in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:        "disruption-controller",
		Alias:       "disruption",
		Account:     "disruption-controller",
		Beside:      true,
		EventSource: "controllermanager",
		Rights:      Rights,
		Fields:      cached(),
		Init:        initialize,
	}
}

// cached is what the controller reads. Budgets are written back whole.
func cached() projection.Fields {
	workload := []string{"spec.replicas", "spec.template.metadata.labels"}
	return projection.Fields{
		Kinds: map[schema.GroupVersionKind][]string{
			podKind:        {"status.conditions", "status.phase"}, // DIS-22, DIS-33
			controllerKind: workload, setKind: workload, deploymentKind: workload, statefulKind: workload,
			budgetKind: nil,
		},
		PodCondition: func(_ *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.PodReady || t == corev1.DisruptionTarget
		},
	}
}

func initialize(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	k.mapper, k.verifier = c.Clients.Mapper(), c.Shared.Verifier
	return reconcile.Together(
		reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, notes, memory]{
			Name:     "disruption", // of the queue (DIS-1)
			Workers:  workers,
			Kinds:    []string{budgetKind.Kind},
			Watches:  k.watches(),
			Observe:  k.observe,
			Remember: remember,
			Owner:    func(s snapshot) plan.Object { return s.Budget },
			Plan:     planEvents,
			Report:   reconcile.ReportOnly[snapshot, notes](reportStatus),
			Live:     k.live,
		}),
		reconcile.New(c.Shared, c.Access, reconcile.Controller[podSnapshot, struct{}, podMemory]{
			Name:    "stale_pod_disruption", // DIS-3
			Workers: workers,
			Kinds:   []string{podKind.Kind},
			Watches: []reconcile.Watch{
				{Kind: podKind, Informer: k.pods.Informer(), Enqueues: k.enqueuedPod},
				{Kind: budgetKind, Informer: k.budgets.Informer(), Enqueues: func(_, _ plan.Object) []plan.Key { return nil }},
			},
			Observe:          k.observePod,
			Owner:            func(s podSnapshot) plan.Object { return s.Pod },
			SkipVerification: true, // the version is a precondition of the only write, so that nothing need be read before it
			Plan:             reconcile.PlanOnly(planPod),
		}),
	), nil
}

func newCaches(f kubeinformers.SharedInformerFactory) (*caches, error) {
	budgets, err1 := informers.Budgets(f)
	pods, err2 := informers.PodsByLabels(f)
	controllers, err3 := informers.Objects[*corev1.ReplicationController](f)
	sets, err4 := informers.Objects[*appsv1.ReplicaSet](f)
	deployments, err5 := informers.Objects[*appsv1.Deployment](f)
	statefulSets, err6 := informers.Objects[*appsv1.StatefulSet](f)
	return &caches{
		budgets: budgets, pods: pods, controllers: controllers, replicaSets: sets, deployments: deployments, statefulSets: statefulSets,
		large: largeBudget,
	}, errors.Join(err1, err2, err3, err4, err5, err6)
}

// watches are those of the queue of budgets.
func (k *caches) watches() []reconcile.Watch {
	return []reconcile.Watch{
		{Kind: budgetKind, Informer: k.budgets.Informer(), Enqueues: informers.Itself, Resync: true}, // DIS-4
		{Kind: podKind, Informer: k.pods.Informer(), Enqueues: k.enqueuedByPod, RecordNews: true},
		{Kind: controllerKind, Informer: k.controllers.Informer(), Enqueues: k.enqueuedByWorkload},
		{Kind: setKind, Informer: k.replicaSets.Informer(), Enqueues: k.enqueuedByWorkload},
		{Kind: deploymentKind, Informer: k.deployments.Informer(), Enqueues: k.enqueuedByWorkload},
		{Kind: statefulKind, Informer: k.statefulSets.Informer(), Enqueues: k.enqueuedByWorkload},
	}
}
