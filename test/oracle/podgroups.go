package oracle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const podGroupFinalizer = "scheduling.k8s.io/podgroup-protection"

// PodGroupsStayWhileTheirPodsRun is S41: the finalizer of a PodGroup comes off only when the PodGroup is being deleted, and no pod of it
// may run, but for pods that were created within the lag (PGP-3).
func PodGroupsStayWhileTheirPodsRun() Oracle {
	return Oracle{"S41", "a PodGroup stays while a pod of it may run", func(j *judge) hooks {
		g := &podGroupJudge{judge: j, since: map[types.UID]time.Time{}}
		return hooks{before: g.before, after: g.after}
	}}
}

// podGroupJudge is what S41 remembers.
type podGroupJudge struct {
	*judge
	since map[types.UID]time.Time // when pods were created
}

func (g *podGroupJudge) before(r *revision) {
	group, ok := r.old.(*schedulingv1beta1.PodGroup)
	if !ok || !r.manager || !r.loses(podGroupFinalizer) {
		return
	}
	if group.DeletionTimestamp == nil {
		g.judges(false)
		g.report(r, nil, "the PodGroup is not being deleted, and loses its finalizer")
		return
	}
	excused := false
	for _, p := range g.podsIn[group.Namespace] {
		if s := p.Spec.SchedulingGroup; s == nil || ptr.Deref(s.PodGroupName, "") != group.Name || finished(p.Pod) {
			continue
		}
		if g.recent(r, g.since[p.UID], Pod) {
			excused = true
			continue
		}
		g.judges(false)
		g.report(r, []string{Pod + "/" + keyOf(p.Pod)}, "the PodGroup may go, though the pod %s may run, which is there since %s", p.Name,
			g.since[p.UID].UTC().Format("15:04:05.000"))
		return
	}
	g.judges(excused)
}

// after notes when pods were created.
func (g *podGroupJudge) after(r *revision) {
	if p, ok := r.Object.(*corev1.Pod); ok && r.Type == Added {
		g.since[p.UID] = g.now
	}
}
