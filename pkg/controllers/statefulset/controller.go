package statefulset

import (
	"cmp"
	"errors"
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

// New returns the statefulset controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "statefulset-controller",
		Alias:   "statefulset",
		Account: "statefulset-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the caches and says how the controller works. The gauges of sets end with each term, so the
// runner is wrapped.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	sets, err1 := informers.Objects[*appsv1.StatefulSet](c.Informers)
	pods, err2 := informers.Pods(c.Informers, informers.PodFields{
		Paths: []string{"status.phase", "status.conditions", "status.startTime"}, Condition: informers.ReadyCondition,
	})
	claims, err3 := informers.Objects[*corev1.PersistentVolumeClaim](c.Informers)
	revisions, err4 := informers.OwnedObjects[*appsv1.ControllerRevision](c.Informers)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	own := newCollectors(c.Enabled("MaxUnavailableStatefulSet"),
		func(set *appsv1.StatefulSet) bool { return sets.Get(set.Namespace, set.Name) != nil })
	own.register(c.RegisterMetrics)
	k := &caches{
		sets: sets, pods: pods, claims: claims, revisions: revisions,
		maxUnavailable:   c.Enabled("MaxUnavailableStatefulSet"),
		byBytes:          !c.Enabled("StatefulSetSemanticRevisionComparison"),
		replaceStuckPods: o.ReplaceStuckPods,
	}
	owners := &owners{informers.Owners[*appsv1.StatefulSet]{
		Kind: "StatefulSet", Get: sets.Get, In: sets.In,
		Selector: func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector },
	}}
	runner := reconcile.New(c.Shared, c.Access.OnStale(own.countStale),
		reconcile.Controller[snapshot, decision, memory]{
			Name:      "statefulset",
			Workers:   int(o.Workers),
			Explained: []string{"StatefulSet"},
			Watches: []reconcile.Watch{
				sets.Watch(own.enqueues, informers.WithResync),
				pods.Watch(owners.enqueuesByPod),
				claims.Watch(owners.enqueuesByClaim),
				revisions.Watch(owners.Enqueues),
			},
			Observe:  k.observe,
			Remember: remember,
			Owner:    func(s snapshot) plan.Object { return s.Set },
			Subject:  func(s snapshot) types.UID { return s.Set.UID },
			Plan:     planSet,
			Report:   reportStatus,
			Applied:  own.applied,
			Live:     live,
		})
	return term{runner, own}, nil
}

// owners finds the StatefulSets that a change concerns.
type owners struct {
	informers.Owners[*appsv1.StatefulSet]
}

// enqueuesByPod returns the owner of a pod, and of one that is gone also the set that waits for its name (STS-53).
// Changes that alter nothing that a reconcile reads of pods enqueue nothing.
func (o *owners) enqueuesByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && was.Status.Phase == is.Status.Phase &&
		was.Status.StartTime.Equal(is.Status.StartTime) && podutil.CountsAlike(was, is) {
		return nil
	}
	keys := o.Enqueues(before, after)
	if after != nil {
		return keys
	}
	name, _, ok := splitName(before.GetName())
	if !ok {
		return keys
	}
	set := o.Get(before.GetNamespace(), name)
	if set == nil || metav1.IsControlledBy(before, set) {
		return keys
	}
	return append(keys, plan.Key{Namespace: set.Namespace, Name: set.Name})
}

// enqueuesByClaim returns the sets that have a claim that is gone: a pod may wait for that, or for the claim (STS-21,
// STS-26).
func (o *owners) enqueuesByClaim(before, after plan.Object) (keys []plan.Key) {
	if after != nil {
		return nil
	}
	namespace := before.GetNamespace()
	pod := before.GetName()
	for {
		_, rest, ok := strings.Cut(pod, "-")
		if !ok {
			return keys
		}
		pod = rest
		name, _, _ := splitName(pod)
		set := o.Get(namespace, name)
		if set == nil {
			continue
		}
		template := strings.TrimSuffix(before.GetName(), "-"+pod)
		for i := range set.Spec.VolumeClaimTemplates {
			if set.Spec.VolumeClaimTemplates[i].Name == template {
				keys = append(keys, plan.Key{Namespace: namespace, Name: name})
			}
		}
	}
}

// live names the pods and revisions that a previous leader may have created or deleted.
func live(s snapshot) []reconcile.Live {
	selector, err := metav1.LabelSelectorAsSelector(s.Set.Spec.Selector)
	if err != nil || selector.Empty() {
		return nil
	}
	namespace := s.Set.Namespace
	return []reconcile.Live{reconcile.LiveOf(namespace, selector, s.Pods),
		reconcile.LiveOf(namespace, selector, s.Revisions)}
}
