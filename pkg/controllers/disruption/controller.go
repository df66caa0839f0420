package disruption

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/scale"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the disruption controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:        "disruption-controller",
		Alias:       "disruption",
		Account:     "disruption-controller",
		Beside:      true,
		Flags:       &o,
		EventSource: "controllermanager",
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the two queues work. They share the caches.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	k.mapper, k.verifier = c.Clients.Mapper(), c.Shared.Verifier
	return reconcile.Together(
		reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, notes, memory]{
			Name:      "disruption", // of the queue (DIS-1)
			Workers:   int(o.Workers),
			Explained: []string{k.budgets.Kind().Kind},
			Watches:   k.watches(),
			Observe:   k.observe,
			Remember:  remember,
			Owner:     func(s snapshot) plan.Object { return s.Budget },
			Plan:      planEvents,
			Report:    reconcile.ReportOnly[snapshot, notes](reportStatus),
			Live:      k.live,
		}),
		reconcile.New(c.Shared, c.Access, reconcile.Controller[podSnapshot, struct{}, podMemory]{
			Name:      "stale_pod_disruption",
			Workers:   int(o.Workers),
			Explained: []string{k.pods.Kind().Kind},
			Watches: []reconcile.Watch{
				k.pods.Watch(k.enqueuedPod),
				k.budgets.Watch(informers.None),
			},
			Observe: k.observePod,
			Owner:   func(s podSnapshot) plan.Object { return s.Pod },
			Subject: func(s podSnapshot) types.UID { return s.Pod.UID },
			// the version is a precondition of the only write, so that nothing need be read before it
			SkipVerification: true,
			Plan:             reconcile.PlanOnly(planPod),
		}),
	), nil
}

// newCaches asks for budgets, for pods with an index by labels, and for the workloads that may own pods.
func newCaches(f *informers.Factory) (*caches, error) {
	budgets, err1 := informers.Budgets(f)
	pods, err2 := informers.PodsByLabels(f, informers.PodFields{
		Paths: []string{"status.conditions", "status.phase"},
		Condition: func(_ *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.PodReady || t == corev1.DisruptionTarget
		},
	})
	workloads, err3 := scale.NewCaches(f, "spec.replicas", "spec.template.metadata.labels")
	return &caches{budgets: budgets, pods: pods, workloads: workloads, large: largeBudget, most: mostRemembered},
		errors.Join(err1, err2, err3)
}

// watches are those of the queue of budgets.
func (k *caches) watches() []reconcile.Watch {
	return append([]reconcile.Watch{
		k.budgets.Watch(informers.Itself, informers.WithResync),
		k.pods.Watch(k.enqueuedByPod, informers.WithNews),
	}, k.workloads.Watches(k.enqueuedByWorkload)...)
}
