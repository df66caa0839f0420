package daemonset

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the daemonset controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 2)
	return manager.Controller{
		Name:        "daemonset-controller",
		Alias:       "daemonset",
		Account:     "daemon-set-controller",
		Beside:      true,
		EventSource: "daemonset-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// podFields are what the controller reads of pods. DaemonSets are written back whole, and of revisions all data counts.
func podFields() informers.PodFields {
	return informers.PodFields{
		Paths: []string{
			"spec.nodeName", "status.phase", "status.conditions",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		},
		Condition: informers.ReadyCondition,
	}
}

// init asks for the caches and says how the controller works. Pods have two indexes, by owner and by node.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	sets, err1 := informers.Objects[*appsv1.DaemonSet](c.Informers)
	revisions, err2 := informers.OwnedObjects[*appsv1.ControllerRevision](c.Informers)
	pods, err3 := informers.Pods(c.Informers, podFields())
	onNodes, err4 := informers.PodsByNode(c.Informers, podFields())
	nodes, err5 := informers.Nodes(c.Informers, "spec.taints")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	cached := newEligibilityCache(c.Enabled("TaintTolerationComparisonOperators"), sets.Get)
	k := &caches{sets, revisions, pods, onNodes, nodes, cached, c.Shared.Verifier}
	own := newCollectors()
	own.register(c.RegisterMetrics)
	owners := &owners{informers.Owners[*appsv1.DaemonSet]{
		Kind: "DaemonSet", Get: sets.Get, In: sets.In,
		Selector: func(d *appsv1.DaemonSet) *metav1.LabelSelector { return d.Spec.Selector },
	}}
	return reconcile.New(c.Shared, c.Access.OnStale(own.countStale), reconcile.Controller[snapshot, decision, memory]{
		Name:      "daemonset", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{"DaemonSet"},
		Watches: []reconcile.Watch{
			sets.Watch(informers.Itself, informers.WithResync),
			pods.Watch(owners.enqueuedByPod),
			revisions.Watch(owners.enqueuedByRevision),
			nodes.Watch(k.enqueuedByNode),
		},
		Observe:  k.observe,
		Remember: reconcile.RememberOutcome(remember),
		Owner:    func(s snapshot) plan.Object { return s.Set },
		Subject:  func(s snapshot) types.UID { return s.Set.UID },
		Plan:     planSet,
		Report:   reportSet,
		Live:     live,
	}), nil
}

// owners finds the DaemonSets that a change concerns.
type owners struct {
	informers.Owners[*appsv1.DaemonSet]
}

// enqueuedByPod returns the DaemonSets that a change of a pod concerns (DS-2), but for changes that alter nothing
// that they count.
func (o *owners) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && was.Spec.NodeName == is.Spec.NodeName && podutil.CountsAlike(was, is) {
		return nil
	}
	return o.Enqueues(before, after)
}

// enqueuedByRevision returns the DaemonSets that a change of a ControllerRevision concerns (DS-3). The end of one
// also concerns the DaemonSet after which it is named, whoever owned it: it may have stood in for a revision that
// could not be created (DS-55).
func (o *owners) enqueuedByRevision(before, after plan.Object) []plan.Key {
	if before == nil && metav1.GetControllerOfNoCopy(after) != nil {
		return nil
	}
	keys := o.Enqueues(before, after)
	if after != nil {
		return keys
	}
	key := plan.Key{Namespace: before.GetNamespace(),
		Name: before.GetName()[:max(0, strings.LastIndex(before.GetName(), "-"))]}
	if o.Get(key.Namespace, key.Name) != nil && !slices.Contains(keys, key) {
		keys = append(keys, key)
	}
	return keys
}
