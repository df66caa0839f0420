package podgc

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// name is that of the queue in metrics (CI-33, PGC-22).
const name = "orphaned_pods_nodes"

// New returns the pod garbage collector. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.TerminatedThreshold = cmp.Or(o.TerminatedThreshold, 12500)
	return manager.Controller{
		Name:    "pod-garbage-collector-controller",
		Alias:   "podgc",
		Account: "pod-garbage-collector",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// podFields are what the controller reads of pods. It compares the condition of a pod that is being disrupted, and
// takes the last transition of any condition for the time when a finished pod ended.
func podFields() informers.PodFields {
	return informers.PodFields{
		Paths: []string{"spec.nodeName", "status.phase", "status.reason", "status.conditions",
			"status.observedGeneration"},
		Condition: func(p *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.DisruptionTarget || podutil.Finished(p)
		},
	}
}

// init asks for the caches and says how the rules work. Each has a worker.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	pods, err1 := informers.EndingPods(c.Informers, podFields())
	nodes, err2 := informers.Nodes(c.Informers, "spec.taints", "status.conditions")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{pods: pods, nodes: nodes, brake: c.Brake, policy: policy{
		Threshold: int(o.TerminatedThreshold), PerNamespace: int(o.TerminatedThresholdPerNamespace),
		MaxAge: o.TerminatedMaxAge,
	}}
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	rules := []plan.Key{{Name: terminated}, {Name: outOfService}, {Name: orphaned}, {Name: unscheduled}}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:    name,
		Workers: len(rules), // none waits for another
		// nothing is done before both are filled (PGC-28); else time is what enqueues a rule
		Watches: []reconcile.Watch{
			pods.Watch(informers.None),
			nodes.Watch(comingOrGoing, informers.WithChanges,
				informers.WithDelay(func(plan.Key) time.Duration { return time.Second })),
		},
		Source:  reconcile.Keys(rules...),
		Period:  cycle,
		Observe: k.observe,
		Prove:   k.prove,
		// what was seen of the nodes, whatever becomes of the pods
		Remember: reconcile.Always[snapshot, struct{}, memory],
		Plan:     reconcile.PlanOnly(planPods),
		Applied:  own.applied,
		Brake:    c.Brake,
	}), nil
}

// comingOrGoing lets the grace period of a node begin when it has gone, and end when it is back, and not up to a cycle
// later.
func comingOrGoing(before, after plan.Object) []plan.Key {
	if before != nil && after != nil {
		return nil
	}
	return []plan.Key{{Name: orphaned}}
}
