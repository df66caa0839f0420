package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportStatus writes the Deployment's status: its counts, conditions and revision, in one write, and only when
// something differs (DEP-64..76). What users wait for is written at once; progress is debounced while things move.
func reportStatus(_ time.Time, _ snapshot, r *rollout, did plan.Outcome) plan.Plan {
	if did.Stopped || r.course == blocked || r.course == adopting || r.unsure(did) {
		return plan.Plan{}
	}
	if r.course == selectsAll {
		return r.reportSelectsAll()
	}
	r = r.after(did)
	status := r.status()
	status.Conditions = r.conditions(&status, did)
	r.next = 0 // what the pods need is in the plan
	r.requeueAfter(r.deadlineIn(&status))
	annotations, moved := r.annotations(did)
	before := r.d.Status
	before.TerminatingReplicas = workloads.ReportedTerminating(before.TerminatingReplicas, status.TerminatingReplicas)
	if !moved && equality.Semantic.DeepEqual(before, status) {
		return plan.Plan{Requeue: r.next, Progressing: r.moving()}
	}
	d := *r.d // its parts belong to the cache: they are replaced, not changed
	d.Status, d.Annotations = status, annotations
	step := plan.Change{Old: r.d, New: &d, Subresource: plan.Status, Why: "the status has changed"}
	p := plan.Plan{Steps: []plan.Step{step}, Requeue: r.next, Progressing: r.moving()}
	p.When = r.when(&status, did)
	return p
}

// reportSelectsAll complains about an empty selector, once for each generation (DEP-4, DEP-79).
func (r *rollout) reportSelectsAll() plan.Plan {
	if r.d.Status.ObservedGeneration >= r.d.Generation {
		return plan.Plan{}
	}
	d := r.d.DeepCopy()
	d.Status.ObservedGeneration = d.Generation
	event := plan.Event{Type: corev1.EventTypeWarning, Reason: "SelectingAll",
		Message: "This deployment is selecting all pods. A non-empty selector is required."}
	return plan.Plan{Steps: []plan.Step{plan.Change{
		Old: r.d, New: d, Subresource: plan.Status, Events: plan.Events{Done: event},
		Why: "an empty selector is refused",
	}}}
}

// unsure reports whether the counts would be wrong, or the Deployment is not the one that was observed any more: a
// ReplicaSet was to be adopted or released, and that failed; or the plan has changed the Deployment itself.
func (r *rollout) unsure(did plan.Outcome) bool {
	return slices.ContainsFunc(did.Results, func(result plan.Result) bool {
		switch o := result.Object.(type) {
		case *appsv1.Deployment:
			return true
		case *appsv1.ReplicaSet:
			return result.Err != nil && result.Verb == plan.Changed && !metav1.IsControlledBy(o, r.d)
		}
		return false
	})
}

// after returns the rollout with the ReplicaSets as the plan has left them.
func (of *rollout) after(did plan.Outcome) *rollout {
	copied := *of
	r := &copied
	if r.new != nil {
		r.new = ptr.To(*r.new)
	}
	r.old = slices.Clone(r.old)
	for i, s := range r.old {
		r.old[i] = ptr.To(*s)
	}
	for _, result := range did.Results {
		rs, ok := result.Object.(*appsv1.ReplicaSet)
		if !ok || result.Err != nil {
			continue
		}
		switch result.Verb {
		case plan.Created:
			r.new = newSet(rs, counted{})
		case plan.Changed:
			for _, s := range r.sets() {
				if s.UID == rs.UID {
					s.ReplicaSet, s.size = rs, number(rs.Spec.Replicas)
				}
			}
		}
	}
	return r
}

// status counts (DEP-64). The numbers are those that the ReplicaSets' statuses will show: there is no need to wait for
// them to be written.
func (r *rollout) status() appsv1.DeploymentStatus {
	status := appsv1.DeploymentStatus{ObservedGeneration: r.d.Generation, CollisionCount: r.collisions()}
	var terminating int32
	for _, s := range r.sets() {
		status.Replicas += s.counts.Active
		status.ReadyReplicas += s.counts.Ready
		status.AvailableReplicas += s.counts.Available
		terminating += s.counts.Terminating
	}
	if r.new != nil {
		status.UpdatedReplicas = r.new.counts.Active
	}
	status.UnavailableReplicas = fit(r.total() - int64(status.AvailableReplicas))
	if !r.TerminatingUncounted {
		status.TerminatingReplicas = &terminating
	}
	return status
}

// collisions counts the names that turned out to be taken when a ReplicaSet was to be created (DEP-25).
func (r *rollout) collisions() *int32 {
	n := r.d.Status.CollisionCount
	wanted := r.course == rolling || r.course == rollingBack ||
		r.course == recreating && sizes(r.old) == 0 && r.remains(r.new) == ""
	if taken, wait := r.collides(); !wanted || !taken || wait > 0 {
		return n
	}
	if n == nil {
		return pointer(1)
	}
	return pointer(int64(*n) + 1)
}

// annotations returns the Deployment's annotations with its revision, which is that of the new ReplicaSet and goes
// through the status subresource, where it does not count as a change of the spec (DEP-17).
func (r *rollout) annotations(did plan.Outcome) (all map[string]string, moved bool) {
	if !r.behind() {
		return r.d.Annotations, false
	}
	revision, raised := r.revision()
	if did.Err != nil && raised { // the ReplicaSet may not have got it
		return r.d.Annotations, false
	}
	all = map[string]string{}
	for k, v := range r.d.Annotations {
		all[k] = v
	}
	all[revisionAnnotation] = revision
	return all, true
}

// when decides how long the report may wait for a newer one. Failures never do, nor does what others wait for, or the
// last report before the rollout is done. But after a write the next reconcile follows at once and has more to
// report, and who sees a rollout finished should find its ReplicaSets finished, too.
func (r *rollout) when(status *appsv1.DeploymentStatus, did plan.Outcome) plan.When {
	before := &r.d.Status
	collided := !equality.Semantic.DeepEqual(before.CollisionCount, status.CollisionCount)
	news := collided || flipped(before.Conditions, status.Conditions)
	finishes := reasonOf(before.Conditions) != finished && reasonOf(status.Conditions) == finished
	if failed(before.Conditions, status.Conditions) {
		return plan.Now()
	}
	later := plan.Progress(r.total())
	if news || finishes || before.ObservedGeneration < status.ObservedGeneration {
		later = plan.Soon()
	}
	moving := r.moving()
	return did.ReportWhen(news && !(finishes && moving), moving || did.Wrote(), later)
}

// moving reports whether more is about to change by itself: pods come, go or become available, or a ReplicaSet's
// status has not caught up.
func (r *rollout) moving() bool {
	return slices.ContainsFunc(r.sets(), func(s *set) bool {
		c, reported := s.counts, s.Status
		settled := int64(c.Active) == s.size && c.Available == c.Active && c.Terminating == 0
		caughtUp := reported.ObservedGeneration >= s.Generation && reported.Replicas == c.Active &&
			reported.ReadyReplicas == c.Ready &&
			reported.AvailableReplicas == c.Available &&
			(reported.TerminatingReplicas == nil || *reported.TerminatingReplicas == c.Terminating)
		return !settled || !caughtUp
	})
}
