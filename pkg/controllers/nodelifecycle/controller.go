package nodelifecycle

import (
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many nodes are reconciled at the same time, and how many Leases are read live at most (NL-2).
const workers = 8

// New returns the controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.setDefaults()
	return manager.Controller{
		Name:    "node-lifecycle-controller",
		Alias:   "nodelifecycle",
		Account: "node-controller",
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the caches and says how the controller works. Leases are recorded, the latest of each node,
// and enqueue it only when its grace period could be over.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	nodes, err1 := informers.Nodes(c.Informers, "metadata.annotations["+cutOff+"]", "spec.taints", "spec.unschedulable",
		"status.conditions")
	// Those of all namespaces, so that the garbage collector, which wants the metadata of all objects, needs no watch
	// of its own. Of all objects, Leases change most.
	leases, err2 := informers.Objects[*coordinationv1.Lease](c.Informers, "spec.renewTime")
	pods, err3 := informers.PodsByNode(c.Informers, informers.PodFields{
		Paths:     []string{"spec.nodeName", "status.conditions"},
		Condition: func(_ *corev1.Pod, t corev1.PodConditionType) bool { return t == corev1.PodReady },
	})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{nodes: nodes, leases: leases, pods: pods, limits: *o}
	k.term = k.newTerm()
	own := newCollectors(k)
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:      "node_lifecycle_controller", // of the queue
		Workers:   workers,
		Explained: []string{nodes.Kind().Kind},
		Watches: []reconcile.Watch{
			k.term.Follow(nodes.Watch(k.enqueuedByNode, informers.WithLatest)),
			leases.Watch(ofNode, informers.WithLatest, informers.WithDelay(k.untilRenewalMatters)),
			pods.Watch(k.enqueuedByPod),
		},
		Term:     k.term,
		Observe:  k.observe,
		Prove:    prove,
		Plan:     planNode,
		Remember: remember,
		Applied:  own.applied,
	}), nil
}

// ofNode is the node of a Lease, which has its name.
func ofNode(_, after plan.Object) []plan.Key {
	if after == nil || after.GetNamespace() != corev1.NamespaceNodeLease {
		return nil
	}
	return []plan.Key{{Name: after.GetName()}}
}

// untilRenewalMatters is the time until the node of a renewed Lease is to be looked at: when the grace period before
// the renewal would be over. A node that is ready is looked at then anyway.
func (k *caches) untilRenewalMatters(node plan.Key) time.Duration {
	if n := k.nodes.Get(node.Name); n != nil && nodes.Ready(n) {
		return -1
	}
	return k.limits.MonitorGracePeriod
}

// remember keeps what was seen and decided, whatever became of the writes. Only pods whose marks were written count
// as marked.
func remember(_ time.Time, s snapshot, d decision, _ *memory, did, _ plan.Outcome) (*memory, bool) {
	if s.Node == nil {
		return nil, true
	}
	for pod, is := range d.Memory.Marked {
		if was := s.Memory.Marked[pod]; is != was && !done(did, pod) {
			d.Memory.Marked[pod] = was
		}
	}
	return &d.Memory, true
}

// done reports whether something of an object was written, and all that was sent of it. Writes to others do not count:
// the taint of a node and the marks of its pods do not wait for one another.
func done(did plan.Outcome, of types.UID) (some bool) {
	for _, r := range did.Results {
		if r.Object.GetUID() != of {
			continue
		}
		if r.Err != nil {
			return false
		}
		some = true
	}
	return some
}
