package statefulset

import (
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportStatus writes the set's status when something in it differs (STS-60..63).
func reportStatus(now time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	r := resume(now, s, d)
	if r.invalid != nil || r.adopting || did.Stopped || statusUncertain(s.Set, did) {
		return plan.Plan{}
	}
	status := r.status(did)
	p := plan.Plan{Requeue: r.nextAvailable(), Progressing: r.moving(status)}
	failures := r.failedClaims(did)
	p.Steps = failures
	if equality.Semantic.DeepEqual(s.Set.Status, status) {
		return p
	}
	set := *s.Set // its parts belong to the cache: they are replaced, not changed
	set.Status = status
	p.Steps = append(p.Steps,
		plan.Change{Old: s.Set, New: &set, Subresource: plan.Status, Why: "the status has changed"})
	if len(failures) == 0 {
		p.When = r.when(status, did)
	}
	return p
}

// statusUncertain reports whether the status would not be true: a revision could not be created or changed, or a pod
// not be released. A failure of another write does not keep the status from being reported (STS-63).
func statusUncertain(set *appsv1.StatefulSet, did plan.Outcome) bool {
	return slices.ContainsFunc(did.Results, func(result plan.Result) bool {
		if result.Err == nil || result.Verb == plan.Deleted {
			return false
		}
		switch o := result.Object.(type) {
		case *appsv1.ControllerRevision:
			return true
		case *corev1.Pod:
			return result.Verb == plan.Changed && !metav1.IsControlledBy(o, set)
		}
		return false
	})
}

// status counts the pods as they were before the plan was carried out, but those that it has deleted count as such
// (STS-61).
func (r *rollout) status(did plan.Outcome) appsv1.StatefulSetStatus {
	deleted := map[types.UID]bool{}
	for _, result := range did.Results {
		if result.Verb == plan.Deleted && result.Err == nil {
			deleted[result.Object.GetUID()] = true
		}
	}
	collisions := r.collisions
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: r.Set.Generation,
		CollisionCount:     &collisions,
		CurrentRevision:    r.current.Name,
		UpdateRevision:     r.update.Name,
	}
	for _, p := range r.mine {
		if p.Status.Phase != "" {
			status.Replicas++
		}
		if ready(p) {
			status.ReadyReplicas++
		}
		if r.available(p) {
			status.AvailableReplicas++
		}
		if p.DeletionTimestamp != nil || deleted[p.UID] {
			continue
		}
		if revisionOf(p) == status.CurrentRevision {
			status.CurrentReplicas++
		}
		if revisionOf(p) == status.UpdateRevision {
			status.UpdatedReplicas++
		}
	}
	status.Conditions = r.conditions(status)
	if r.complete(status) {
		status.CurrentRevision, status.CurrentReplicas = status.UpdateRevision, status.UpdatedReplicas
	}
	return status
}

// complete reports whether an update has nothing left to do, whoever has deleted the outdated pods (STS-62).
func (r *rollout) complete(status appsv1.StatefulSetStatus) bool {
	wanted := int32(replicas(r.Set))
	return status.UpdatedReplicas == wanted && status.ReadyReplicas == wanted && status.Replicas == wanted
}

// nextAvailable is when the next pod has been ready for minReadySeconds (STS-7).
func (r *rollout) nextAvailable() (next time.Duration) {
	for _, p := range r.mine {
		if in := podutil.AvailableIn(p, r.Set.Spec.MinReadySeconds, r.now); ready(p) && in > 0 &&
			(next == 0 || in < next) {
			next = in
		}
	}
	return next
}

// failedClaims are the events of pods that were not created because a claim could not be created (STS-21).
func (r *rollout) failedClaims(did plan.Outcome) (events []plan.Step) {
	for _, result := range did.Results {
		claim, ok := result.Object.(*corev1.PersistentVolumeClaim)
		if !ok || result.Verb != plan.Created || result.Err == nil || errors.Is(result.Err, plan.ErrStale) {
			continue
		}
		if ordinal, ok := ordinalOfClaim(r.Set, claim.Name); ok && r.replicas[ordinal] == nil {
			events = append(events, r.failure(podName(r.Set, ordinal), result.Err.Error()))
		}
	}
	return events
}

// when decides how long the report may wait for a newer one. Names of revisions decide about pods that are created
// later, and people wait for conditions, so neither waits for long.
func (r *rollout) when(status appsv1.StatefulSetStatus, did plan.Outcome) plan.When {
	before := r.Set.Status
	news := before.CurrentRevision != status.CurrentRevision || before.UpdateRevision != status.UpdateRevision ||
		!equality.Semantic.DeepEqual(before.CollisionCount, status.CollisionCount) ||
		!equality.Semantic.DeepEqual(before.Conditions, status.Conditions)
	// pods come one after the other, and most become ready soon
	later := plan.SlowProgress(int64(max(replicas(r.Set), len(r.mine))))
	if news || before.ObservedGeneration < status.ObservedGeneration {
		later = plan.Soon()
	}
	return did.ReportWhen(news, r.moving(status), later)
}

// moving reports whether more is about to change by itself: pods come, go, or become available.
func (r *rollout) moving(status appsv1.StatefulSetStatus) bool {
	wanted := int32(replicas(r.Set))
	return r.Set.DeletionTimestamp == nil && (int32(len(r.mine)) != wanted || status.AvailableReplicas != wanted ||
		status.Replicas != wanted ||
		status.UpdatedReplicas != wanted && (recreates(r.Set) || rolls(r.Set) && r.partition() == 0))
}
