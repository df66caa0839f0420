package disruption

import (
	"cmp"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	budgetKind = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // keys of each queue that are reconciled at the same time
}

// New returns the disruption controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:        "disruption-controller",
		Alias:       "disruption",
		Account:     "disruption-controller",
		Beside:      true,
		EventSource: "controllermanager",
		Rights:      Rights,
		Init:        o.init,
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	k.mapper, k.verifier = c.Clients.Mapper(), c.Shared.Verifier
	return reconcile.Together(
		reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, notes, memory]{
			Name:     "disruption", // of the queue (DIS-1)
			Workers:  int(o.Workers),
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
			Workers: int(o.Workers),
			Kinds:   []string{podKind.Kind},
			Watches: []reconcile.Watch{
				k.pods.Watch(k.enqueuedPod),
				k.budgets.Watch(informers.Nothing),
			},
			Observe:          k.observePod,
			Owner:            func(s podSnapshot) plan.Object { return s.Pod },
			SkipVerification: true, // the version is a precondition of the only write, so that nothing need be read before it
			Plan:             reconcile.PlanOnly(planPod),
		}),
	), nil
}

func newCaches(f *informers.Factory) (*caches, error) {
	workload := []string{"spec.replicas", "spec.template.metadata.labels"}
	budgets, err1 := informers.Budgets(f)
	pods, err2 := informers.PodsByLabels(f, informers.PodFields{
		Paths: []string{"status.conditions", "status.phase"}, // DIS-22, DIS-33
		Condition: func(_ *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.PodReady || t == corev1.DisruptionTarget
		},
	})
	controllers, err3 := informers.Objects[*corev1.ReplicationController](f, workload...)
	sets, err4 := informers.Objects[*appsv1.ReplicaSet](f, workload...)
	deployments, err5 := informers.Objects[*appsv1.Deployment](f, workload...)
	statefulSets, err6 := informers.Objects[*appsv1.StatefulSet](f, workload...)
	return &caches{
		budgets: budgets, pods: pods, controllers: controllers, replicaSets: sets, deployments: deployments, statefulSets: statefulSets,
		large: largeBudget,
	}, errors.Join(err1, err2, err3, err4, err5, err6)
}

// watches are those of the queue of budgets.
func (k *caches) watches() []reconcile.Watch {
	return []reconcile.Watch{
		k.budgets.Watch(informers.Itself, informers.WithResync), // DIS-4
		k.pods.Watch(k.enqueuedByPod, informers.WithNews),
		k.controllers.Watch(k.enqueuedByWorkload),
		k.replicaSets.Watch(k.enqueuedByWorkload),
		k.deployments.Watch(k.enqueuedByWorkload),
		k.statefulSets.Watch(k.enqueuedByWorkload),
	}
}
