package tainteviction

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// gracePeriod is the default of --node-monitor-grace-period.
const gracePeriod = 50 * time.Second

// workers is how many pods are reconciled at the same time (TE-4).
const workers = 8

// New returns the controller.
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:        "taint-eviction-controller",
		Account:     "node-controller",
		EventSource: "taint-eviction-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the controller works. Of pods it reads when they were bound, and of
// nodes their taints.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	pods, err1 := informers.PodsByNode(c.Informers, informers.PodFields{
		Paths: []string{"spec.nodeName", "spec.tolerations", "status.phase", "status.conditions"},
		Condition: func(_ *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.DisruptionTarget || t == corev1.PodScheduled
		},
	})
	nodes, err2 := informers.Nodes(c.Informers, "spec.taints")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{
		pods: pods, nodes: nodes, brake: c.Brake, respect: o.RespectBudgets,
		began:      reconcile.NewTerm(reconcile.TermOptions[time.Time]{Begin: c.Shared.Clock.Now}),
		comparison: c.Enabled("TaintTolerationComparisonOperators"), grace: cmp.Or(o.GracePeriod, gracePeriod),
	}
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:      "noexec_taint_pod", // of the queue
		Workers:   workers,
		Explained: []string{pods.Kind().Kind},
		Watches:   []reconcile.Watch{nodes.Watch(k.enqueuedByNode), pods.Watch(k.enqueuedByPod)},
		Term:      k.began,
		Observe:   k.observe,
		Prove:     prove,
		Plan:      o.plan,
		Remember:  reconcile.RememberOutcome(remember),
		Applied:   own.applied,
		Brake:     c.Brake,
	}), nil
}
