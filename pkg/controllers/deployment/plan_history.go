package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// tidy cleans up the history after a rollout: once the stored status says that it is complete, so that everyone has
// seen it succeed before the way back is cut short (DEP-46).
func (r *rollout) tidy() {
	if complete(r.d, &r.d.Status) {
		r.cleanUp()
	}
}

// complete reports whether the status reports a finished rollout (DEP-71).
func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	replicas := int32(number(d.Spec.Replicas))
	return s.UpdatedReplicas == replicas && s.Replicas == replicas && s.AvailableReplicas == replicas &&
		s.ObservedGeneration >= d.Generation
}

// cleanUp deletes the oldest revisions beyond the limit. One that still has work to finish is kept for now, and no
// other is deleted in its place (DEP-62).
func (r *rollout) cleanUp() {
	limit := r.d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return
	}
	old := slices.DeleteFunc(slices.Clone(r.old), func(s *set) bool { return s.DeletionTimestamp != nil })
	if !slices.ContainsFunc(old, unnumbered) { // otherwise age has to do, in which they are already
		slices.SortStableFunc(old, byRevision)
	}
	var gone []plan.Object
	for _, s := range old[:max(0, len(old)-int(max(0, *limit)))] {
		if s.size == 0 && s.Status.Replicas == 0 && s.Generation <= s.Status.ObservedGeneration && s.draft == nil {
			gone = append(gone, s.ReplicaSet)
			r.say("delete ReplicaSet %s, beyond the history limit", s.Name)
		}
	}
	if len(gone) > 0 {
		// The version is a precondition, so that one which somebody brings back meanwhile survives.
		r.tail = append(r.tail,
			plan.Delete{Objects: gone, CheckVersion: true, Why: "beyond the revision history limit"})
	}
}

// unnumbered reports whether the revision of a ReplicaSet is no number.
func unnumbered(s *set) bool {
	_, ok := revisionOf(s.ReplicaSet)
	return !ok
}

// byRevision orders ReplicaSets by their revisions, the oldest first.
func byRevision(a, b *set) int {
	m, _ := revisionOf(a.ReplicaSet)
	n, _ := revisionOf(b.ReplicaSet)
	return cmp.Compare(m, n)
}
