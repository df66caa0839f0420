package deployment

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// rollbackTo reads the revision that the deprecated annotation asks for. What is no number is ignored (DEP-50).
func rollbackTo(d *appsv1.Deployment) (revision int64, ok bool) {
	revision, err := strconv.ParseInt(d.Annotations[rollbackAnnotation], 10, 64)
	return revision, err == nil
}

// rollBack brings the template of an earlier revision back, and takes the annotation off in any case (DEP-50..52).
func (r *rollout) rollBack() {
	if r.new == nil && !r.create(r.firstSize()) {
		return
	}
	d := r.d.DeepCopy()
	delete(d.Annotations, rollbackAnnotation)
	event := r.restore(d)
	r.tail = append(r.tail, plan.Change{Old: r.d, New: d, Events: plan.Events{Done: event}, Why: event.Message})
	r.say("%s", event.Message)
}

// firstSize is the size of a new ReplicaSet that comes before it is known which template is wanted. Recreate still has
// to wait for the old pods.
func (r *rollout) firstSize() int64 {
	if !r.gradual() {
		return 0
	}
	taken, _ := r.occupied()
	return grown(0, taken, r.replicas, r.surge)
}

// restore gives the Deployment the template of the revision that is asked for, and returns the event that reports it.
func (r *rollout) restore(d *appsv1.Deployment) plan.Event {
	wanted, _ := rollbackTo(r.d)
	if wanted == 0 {
		if wanted = r.lastButOne(); wanted == 0 {
			return plan.Event{Type: corev1.EventTypeWarning, Reason: "DeploymentRollbackRevisionNotFound",
				Message: "Unable to find last revision."}
		}
	}
	present, _ := r.revision()
	former := r.former(wanted)
	switch {
	case present == strconv.FormatInt(wanted, 10),
		former != nil && r.TemplateMatches.matches(former, &r.d.Spec.Template):
		return plan.Event{Type: corev1.EventTypeWarning, Reason: "DeploymentRollbackTemplateUnchanged",
			Message: fmt.Sprintf("The rollback revision contains the same template as current deployment %q", r.d.Name)}
	case former == nil:
		return plan.Event{Type: corev1.EventTypeWarning, Reason: "DeploymentRollbackRevisionNotFound",
			Message: "Unable to find the revision to rollback to."}
	}
	bringBack(d, former)
	return plan.Event{Type: corev1.EventTypeNormal, Reason: "DeploymentRollback",
		Message: fmt.Sprintf("Rolled back deployment %q to revision %d", r.d.Name, wanted)}
}

// lastButOne is the second highest revision, zero if there is none. The highest is that of the present template.
func (r *rollout) lastButOne() (latest int64) {
	for _, s := range r.old {
		if n, ok := revisionOf(s.ReplicaSet); ok {
			latest = max(latest, n)
		}
	}
	return latest
}

// former returns the old ReplicaSet of a revision, nil if there is none.
func (r *rollout) former(revision int64) *appsv1.ReplicaSet {
	for _, s := range r.old {
		if n, ok := revisionOf(s.ReplicaSet); ok && n == revision && labels.Set(s.Annotations).Has(revisionAnnotation) {
			return s.ReplicaSet
		}
	}
	return nil
}

// bringBack copies the template of a ReplicaSet, and the annotations that the Deployment had with it, but for those
// that never leave their bearer (DEP-51).
func bringBack(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	d.Spec.Template = *rs.Spec.Template.DeepCopy()
	delete(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	annotations := map[string]string{}
	for k, v := range d.Annotations {
		if private(k) {
			annotations[k] = v
		}
	}
	for k, v := range rs.Annotations {
		if !private(k) {
			annotations[k] = v
		}
	}
	d.Annotations = annotations
}
