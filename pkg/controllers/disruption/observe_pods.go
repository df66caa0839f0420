package disruption

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// podMemory is what is remembered of a pod from one reconcile to the next, so that an event about overlapping
// budgets comes once.
type podMemory struct {
	Reported uint64 // a hash of the names of the budgets that an event has named, of which there may be thousands
}

// observePod finds a pod and, if several budgets select it, their names.
func (k *caches) observePod(_ context.Context,
	r reconcile.Request[podMemory]) (reconcile.Observation[podSnapshot, podMemory], error) {
	s := podSnapshot{Pod: k.pods.Get(r.Key.Namespace, r.Key.Name)}
	if s.Pod == nil {
		return reconcile.Observation[podSnapshot, podMemory]{}, nil
	}
	o := reconcile.Observation[podSnapshot, podMemory]{Exists: true}
	if r.Memory != nil {
		s.Reported = r.Memory.Reported
	}
	if budgets := k.budgets.Selecting(s.Pod.Namespace, s.Pod.Labels); len(budgets) > 1 {
		for _, b := range budgets {
			s.Budgets = append(s.Budgets, b.Name)
		}
		slices.Sort(s.Budgets)
		o.Memory = &podMemory{hashOf(s.Budgets)}
	}
	o.Snapshot = s
	return o, nil
}

// enqueuedPod returns the pod itself, if it may say wrongly that it is about to be disrupted (DIS-9), or if several
// budgets select it or have selected it. A pod that is gone is always returned: what is remembered of it has to be
// forgotten.
func (k *caches) enqueuedPod(before, after plan.Object) []plan.Key {
	is, _ := after.(*corev1.Pod)
	if is == nil {
		return informers.Itself(before, after)
	}
	was, _ := before.(*corev1.Pod)
	relabelled := was == nil || !maps.Equal(was.Labels, is.Labels)
	switch {
	case staleDisruption(is) >= 0:
	case (relabelled || !countAlike(was, is)) && k.overlapping(is):
	case was != nil && relabelled && k.overlapping(was):
	default:
		return nil
	}
	return informers.Itself(before, after)
}

// overlapping reports whether several budgets select a pod.
func (k *caches) overlapping(p *corev1.Pod) bool {
	return len(k.budgets.Selecting(p.Namespace, p.Labels)) > 1
}
