package daemonset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportSet reports on what was decided.
func reportSet(now time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	return reportStatus(now, view{s, d}, did)
}

// reportStatus writes the DaemonSet's status when something in it differs (DS-70..74), also when writes have failed
// (DS-15). It counts the pods as they were before the plan was carried out; what the plan did enqueues the key again.
func reportStatus(now time.Time, s view, did plan.Outcome) plan.Plan {
	// an adoption or a release: the counts would be wrong
	uncertain := len(s.ownership) > 0 && did.Failed(plan.Changed) != nil
	if s.invalid != nil || s.Set.DeletionTimestamp != nil || did.Stopped || uncertain {
		return plan.Plan{}
	}
	c := s.count(now)
	status := s.status(c)
	moving := s.moving(c)
	if equality.Semantic.DeepEqual(s.Set.Status, status) {
		return plan.Plan{Requeue: c.next, Progressing: moving}
	}
	after := *s.Set // its parts belong to the cache: they are replaced, not changed
	after.Status = status
	p := plan.Plan{
		Steps: []plan.Step{plan.Change{Old: s.Set, New: &after, Subresource: plan.Status,
			Why: "the status has changed"}},
		Requeue:     c.next,
		Progressing: moving,
	}
	p.When = s.when(&status, moving, did)
	return p
}

// counts are the numbers of a status. The method count makes them of a view; the status is written of them,
// and they say when to look again.
type counts struct {
	// desired counts the nodes that are to run a pod, current those of them that have one, and misscheduled
	// others that have one.
	desired, current, misscheduled int
	// Of the nodes that count as current, so many have a pod that is ready, available, or of the present
	// template.
	ready, available, updated int

	ending bool          // a pod is being deleted
	next   time.Duration // until the next ready pod becomes available; zero if none will by itself
}

// count counts nodes. One with several pods counts by the first of those that run (DS-70).
func (s *view) count(now time.Time) (c counts) {
	minReady := s.Set.Spec.MinReadySeconds
	for _, n := range s.Nodes {
		pods := s.on[n.Name]
		for _, p := range pods {
			c.ending = c.ending || p.DeletionTimestamp != nil
			if in := podutil.AvailableIn(p, minReady, now); in > 0 && (c.next == 0 || in < c.next) {
				c.next = in
			}
		}
		switch {
		case n.Eligibility == eligible:
			c.desired++
		case len(pods) > 0:
			c.misscheduled++
		}
		if n.Eligibility != eligible || len(pods) == 0 {
			continue
		}
		c.current++
		judged := pods[max(0, slices.IndexFunc(pods, podutil.Active))]
		if runs := !podutil.Finished(judged); runs && podutil.Ready(judged) {
			c.ready++
			if podutil.Available(judged, minReady, now) {
				c.available++
			}
		}
		if s.present.has(judged) || slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
			return s.present.has(p) && podutil.Active(p) && podutil.Available(p, minReady, now)
		}) {
			c.updated++
		}
	}
	return c
}

// status returns the status with these numbers. Its conditions are not ours, and stay.
func (s *view) status(c counts) appsv1.DaemonSetStatus {
	return appsv1.DaemonSetStatus{
		DesiredNumberScheduled: int32(c.desired),
		CurrentNumberScheduled: int32(c.current),
		NumberMisscheduled:     int32(c.misscheduled),
		NumberReady:            int32(c.ready),
		NumberAvailable:        int32(c.available),
		NumberUnavailable:      int32(c.desired - c.available),
		UpdatedNumberScheduled: int32(c.updated),
		ObservedGeneration:     s.Set.Generation, // of the object that was acted upon
		CollisionCount:         s.collisions(),
		Conditions:             s.Set.Status.Conditions,
	}
}

// collisions counts the names that turned out to be taken when a revision was to be created (DS-55).
func (s *view) collisions() *int32 {
	n := s.Set.Status.CollisionCount
	if s.collides() && len(s.ownership) == 0 {
		return ptr.To(ptr.Deref(n, 0) + 1)
	}
	return n
}

// moving reports whether more is about to change by itself: pods come, go or become available, or are about to be
// replaced.
func (s *view) moving(c counts) bool {
	rolls := s.Set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType
	return c.available != c.desired || c.ending || rolls && c.updated != c.desired
}

// when decides how long the report may wait for a newer one. What users wait for is reported at once: that each node
// has its pod, and that a name was taken, which leads to another name.
func (s *view) when(status *appsv1.DaemonSetStatus, moving bool, did plan.Outcome) plan.When {
	later := plan.Progress(int64(max(status.DesiredNumberScheduled, status.CurrentNumberScheduled)))
	switch {
	case !equality.Semantic.DeepEqual(s.Set.Status.CollisionCount, status.CollisionCount):
		return plan.Now()
	case s.Set.Status.ObservedGeneration < s.Set.Generation:
		later = plan.Soon()
	}
	return did.ReportWhen(false, moving, later)
}
