package replicas

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// observation is what observe returns. The memory is the history of failures.
type observation = reconcile.Observation[snapshot, failureHistory]

// caches are what the controller reads.
type caches struct {
	get      func(namespace, name string) *Set
	siblings func(*Set) []*Set // nil: deletions are not ranked by related pods
	pods     informers.PodCache
	// disabled is what the configuration has switched off, which every snapshot gets.
	disabled features
}

// observe finds the set, its pods and the orphans it may adopt. Nothing is read live (RS-63).
func (k *caches) observe(_ context.Context, r reconcile.Request[failureHistory]) (observation, error) {
	set := k.get(r.Key.Namespace, r.Key.Name)
	if set == nil {
		return observation{}, nil
	}
	pods := append(k.pods.OwnedBy(set.Namespace, set.UID), k.pods.OrphansIn(set.Namespace)...)
	s := snapshot{Set: set, Pods: pods, Disabled: k.disabled}
	if s.ranks() && k.siblings != nil {
		s.Related = k.related(set)
	}
	history := r.Memory.see(r.Now, s)
	if history != nil {
		s.Failures = history.failures
	}
	return observation{Exists: true, Snapshot: s, Memory: history}, nil
}

// related counts by node the active pods of all sets that have the same controlling owner (RS-32).
func (k *caches) related(set *Set) map[string]int {
	if metav1.GetControllerOfNoCopy(set) == nil {
		return nil
	}
	byNode := map[string]int{}
	for _, sibling := range k.siblings(set) {
		for _, pod := range k.pods.OwnedBy(sibling.Namespace, sibling.UID) {
			if podutil.Active(pod) {
				byNode[pod.Spec.NodeName]++
			}
		}
	}
	return byNode
}

// live names the pods that a previous leader may have created or deleted.
func live(s snapshot) []reconcile.Live {
	selector, err := plan.Selector(s.Set.Spec.Selector)
	if err != nil {
		return nil
	}
	return []reconcile.Live{reconcile.LiveOf(s.Set.Namespace, selector, s.Pods)}
}
