package podgc

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// name is that of the queue in metrics (CI-33, PGC-22).
const name = "orphaned_pods_nodes"

// Controller returns the pod garbage collector's entry in the registry.
func Controller() manager.Controller {
	o := &Options{TerminatedThreshold: 12500, OrphanBrake: 0.5}
	return manager.Controller{
		Name:    "pod-garbage-collector-controller",
		Alias:   "podgc",
		Account: "pod-garbage-collector",
		Beside:  true,
		Options: o,
		Rights:  Rights,
		Fields:  fields(),
		Init:    o.init,
	}
}

// fields are what the controller reads. It compares the condition of a pod that is being disrupted, and takes the last transition
// of any condition for the time when a finished pod ended.
func fields() projection.Fields {
	return projection.Fields{
		Kinds: map[schema.GroupVersionKind][]string{
			corev1.SchemeGroupVersion.WithKind("Pod"): {
				"spec.nodeName", "status.phase", "status.reason", "status.conditions", "status.observedGeneration", // PGC-5, PGC-14
			},
			nodeKind: {"spec.taints", "status.conditions"}, // PGC-7
		},
		PodCondition: func(p *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.DisruptionTarget || podutil.Finished(p) // PGC-15
		},
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	pods, err1 := informers.EndingPods(c.Informers)
	nodes, err2 := informers.Nodes(c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{pods: pods, nodes: nodes, policy: policy{
		Threshold: int(o.TerminatedThreshold), PerNamespace: int(o.TerminatedThresholdPerNamespace),
		MaxAge: o.TerminatedMaxAge, Brake: o.OrphanBrake,
	}}
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	rules := []plan.Key{{Name: terminated}, {Name: outOfService}, {Name: orphaned}, {Name: unscheduled}}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:    name,
		Workers: len(rules), // none waits for another
		Watches: []reconcile.Watch{ // nothing is done before both are filled (PGC-28); else time is what enqueues a rule
			{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Informer: pods.Informer(), Enqueues: nothing},
			{Kind: nodeKind, Informer: nodes.Informer(), Enqueues: comingOrGoing, Record: true,
				Delay: func(plan.Key) time.Duration { return time.Second }},
		},
		Source:   reconcile.Keys(rules...),
		Period:   cycle, // PGC-3
		Observe:  k.observe,
		Remember: reconcile.Always[snapshot, struct{}, memory], // what was seen of the nodes, whatever becomes of the pods
		Plan:     reconcile.PlanOnly(planPods),
		Applied:  own.applied,
	}), nil
}

func nothing(plan.Object, plan.Object) []plan.Key { return nil }

// comingOrGoing lets the grace period of a node begin when it has gone, and end when it is back, and not up to a cycle
// later.
func comingOrGoing(before, after plan.Object) []plan.Key {
	if before != nil && after != nil {
		return nil
	}
	return []plan.Key{{Name: orphaned}}
}
