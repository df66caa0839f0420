package statefulset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// replaceOutdated deletes pods of earlier revisions, the highest ordinal first, down to the partition (STS-55..58).
func (r *rollout) replaceOutdated() []plan.Step {
	switch {
	case !rolls(r.Set):
		return nil
	case r.MaxUnavailable:
		return r.replaceSeveral()
	}
	for ordinal := end(r.Set) - 1; ordinal >= start(r.Set)+r.partition(); ordinal-- {
		p := r.replicas[ordinal]
		switch {
		case p == nil:
			return nil // it is being created
		case r.outdated(p):
			r.say("delete pod %s, to replace it by one of revision %s", p.Name, r.update.Name)
			return r.remove("its revision is outdated", p)
		}
		if why := r.waits(p); why != "" {
			r.say("pod %s %s, the update waits for it", p.Name, why)
			return nil
		}
	}
	return nil
}

// outdated reports whether the pod is to be replaced by one of the update revision. One that has finished is replaced
// anyway.
func (r *rollout) outdated(p *corev1.Pod) bool {
	return revisionOf(p) != r.update.Name && p.DeletionTimestamp == nil && !podutil.Finished(p)
}

// replaceSeveral deletes the outdated pods that are not ready, which takes nothing away, and as many available ones
// as maxUnavailable allows (STS-58). One that is ready, but not for long enough yet, serves already, so it is waited
// for.
func (r *rollout) replaceSeveral() []plan.Step {
	unavailable := r.unavailableFrom(start(r.Set) + r.partition())
	budget := r.maxUnavailable() - unavailable
	var doomed []*corev1.Pod
	for ordinal := end(r.Set) - 1; ordinal >= start(r.Set)+r.partition(); ordinal-- {
		p := r.replicas[ordinal]
		if p == nil || !r.outdated(p) {
			continue
		}
		if ready(p) {
			if budget <= 0 || r.waits(p) != "" {
				continue
			}
			budget--
		}
		r.say("delete pod %s, to replace it by one of revision %s", p.Name, r.update.Name)
		doomed = append(doomed, p)
	}
	if len(doomed) > 0 {
		return r.remove("their revision is outdated", doomed...)
	}
	if unavailable > 0 {
		r.say("%d pods are not available", unavailable)
	}
	return nil
}

// unavailableFrom counts the wanted pods from an ordinal on that are missing, being deleted or not available. Those
// below the partition hold up no update (MEND-5).
func (r *rollout) unavailableFrom(first int) int {
	n := max(0, end(r.Set)-first)
	for ordinal, p := range r.replicas {
		if ordinal >= first && r.waits(p) == "" {
			n--
		}
	}
	return n
}

// maxUnavailable is how many pods may be unavailable during an update: at least one (STS-58). A percentage is one of
// the pods that are updated (MEND-6).
func (r *rollout) maxUnavailable() int {
	u := r.Set.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, max(0, replicas(r.Set)-r.partition()), false)
	if err != nil {
		return 1
	}
	return max(1, n)
}
