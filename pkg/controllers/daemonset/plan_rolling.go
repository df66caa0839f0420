package daemonset

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// budget is what a rolling update may do at a time.
type budget struct{ unavailable, surge int }

// budgetOf returns the budget of a DaemonSet that should have so many pods (DS-60). Only a rolling update allows a
// surge (DS-64).
func budgetOf(d *appsv1.DaemonSet, desired int) budget {
	rolling := d.Spec.UpdateStrategy.RollingUpdate
	if d.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return budget{}
	}
	if rolling == nil {
		rolling = &appsv1.RollingUpdateDaemonSet{}
	}
	r := budget{unavailable: scaled(rolling.MaxUnavailable, desired, 1), surge: scaled(rolling.MaxSurge, desired, 0)}
	if r.unavailable == 0 && r.surge == 0 && desired > 0 {
		r.unavailable = 1
	}
	return r
}

// scaled resolves a number or a percentage, which is rounded up. What makes no sense, or is negative, counts as zero.
func scaled(value *intstr.IntOrString, total, unset int) int {
	if value == nil {
		return unset
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil {
		return 0
	}
	return max(0, n)
}

// pair are the pods of a node that are not being deleted: the first of the present template, and the first of another.
type pair struct {
	node
	// current is of the present template and old of another one; nil if there is none.
	current, old *corev1.Pod
	hasMore      bool // there are more
}

// pairs returns the pods of the nodes where nothing is created or deleted yet, in no order, and what other nodes take
// of the budget.
func (w *planner) pairs() (all []pair, taken budget) {
	for _, n := range w.Nodes {
		if n.Eligibility == excluded {
			continue
		}
		at := w.pairOn(n)
		switch {
		case !w.placed[n.Name]:
			all = append(all, at)
		case n.Eligibility == eligible:
			taken.unavailable++
			if at.current != nil && !w.available(at.current) && at.old != nil && !slices.Contains(w.doomed, at.old) {
				taken.surge++
			}
		}
	}
	return all, taken
}

// pairOn finds the pods of one node that a rolling update is about.
func (w *planner) pairOn(n node) pair {
	at := pair{node: n}
	for _, p := range w.on[n.Name] {
		switch new := w.present.has(p); {
		case p.DeletionTimestamp != nil:
		case new && at.current == nil:
			at.current = p
		case !new && at.old == nil:
			at.old = p
		default:
			at.hasMore = true
		}
	}
	return at
}

// roll replaces pods of other templates by pods of the present one, as far as the budget allows (DS-61..64). It
// continues while pods are created or deleted on other nodes; those count as unavailable.
func (w *planner) roll() {
	if w.Set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || w.complete() {
		return
	}
	if w.budget.surge > 0 {
		w.rollWithSurge()
	} else {
		w.rollInPlace()
	}
}

// complete reports whether all pods have the present template, so that there is nothing to roll.
func (w *planner) complete() bool {
	for _, pods := range w.on {
		for _, p := range pods {
			if !w.present.has(p) {
				return false
			}
		}
	}
	return true
}

// available reports whether a pod, which may be nil, counts as available.
func (w *planner) available(p *corev1.Pod) bool {
	return p != nil && !podutil.Finished(p) && podutil.Available(p, w.Set.Spec.MinReadySeconds, w.now)
}

// rollInPlace deletes old pods; placement creates new ones when they have gone (DS-61, DS-62).
func (w *planner) rollInPlace() {
	pairs, taken := w.pairs()
	var candidates []pair
	for _, at := range pairs {
		missing := true
		switch {
		case at.hasMore, at.current != nil && at.old != nil:
		case at.old == nil && !w.available(at.current):
		case at.old != nil && !w.available(at.old):
			w.delete(at.Name, at.old, "outdated")
		default:
			missing = false
		}
		switch {
		case !missing && at.old != nil:
			candidates = append(candidates, at)
		case missing && at.Eligibility == eligible: // the others need not have a pod
			taken.unavailable++
		}
	}
	for _, at := range w.first(candidates, w.budget.unavailable-taken.unavailable) {
		w.delete(at.Name, at.old, "outdated")
	}
}

// rollWithSurge creates new pods beside old ones, and deletes the old ones when the new ones are available (DS-63).
func (w *planner) rollWithSurge() {
	pairs, taken := w.pairs()
	available := 0
	var candidates, leftovers []pair
	for _, at := range pairs {
		if w.available(at.current) || w.available(at.old) {
			available++
		}
		switch {
		case at.old == nil:
		case at.current != nil && w.available(at.current):
			w.delete(at.Name, at.old, "outdated")
		case at.current != nil:
			if at.Eligibility == eligible { // elsewhere it may never be scheduled, and nobody waits for it
				taken.surge++
			}
		case at.Eligibility == tolerated && w.available(at.old):
			leftovers = append(leftovers, at)
		case at.Eligibility == tolerated:
			w.delete(at.Name, at.old, "outdated")
		case w.available(at.old):
			candidates = append(candidates, at)
		default:
			w.create(at.Name)
		}
	}
	for _, at := range w.first(candidates, w.budget.surge-taken.surge) {
		w.create(at.Name)
	}
	for _, at := range w.first(leftovers, available-w.desired()) {
		w.delete(at.Name, at.old, "outdated")
	}
}

// first returns the first n of the pairs by the names of their nodes. After a failure others come first: a node where
// the server refuses what the rolling update asks for must not keep the rest from it.
func (w *planner) first(pairs []pair, n int) []pair {
	if n <= 0 || len(pairs) == 0 {
		return nil
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.Name, b.Name) })
	if w.Failed {
		pairs = rotated(pairs, w.now)
	}
	return pairs[:min(n, len(pairs))]
}
