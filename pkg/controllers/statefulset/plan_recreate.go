package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// recreates reports whether the last pod of an earlier revision is to be gone before the first one of the new
// revision is made (STS-76).
func recreates(set *appsv1.StatefulSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType
}

// rolls reports whether pods of earlier revisions are replaced a few at a time. With a strategy that is not known
// here none is.
func rolls(set *appsv1.StatefulSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType
}

// earlier are the pods that have to be gone before another one is made: members of other revisions, also those that
// are too many. There are none unless the set recreates its pods. They are sorted by ordinal.
func (r *rollout) earlier() (all []*corev1.Pod) {
	if !recreates(r.Set) {
		return nil
	}
	for _, p := range r.mine {
		if revisionOf(p) != r.update.Name {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return ordinalOf(a) - ordinalOf(b) })
	return all
}

// clear deletes pods of earlier revisions all at once, whatever the management policy is. Nothing else is done before
// they are gone.
func (r *rollout) clear(earlier []*corev1.Pod) []plan.Step {
	var doomed []*corev1.Pod
	for _, p := range earlier {
		if p.DeletionTimestamp == nil && len(doomed) < burst {
			doomed = append(doomed, p)
		}
	}
	r.say("%d pods of earlier revisions have to be gone before any of revision %s is created", len(earlier),
		r.update.Name)
	if len(doomed) == 0 {
		return nil
	}
	r.say("delete %d of them", len(doomed))
	return r.remove("its revision is outdated", doomed...)
}
