package deployment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Reasons of the condition Progressing (DEP-69).
const (
	created    = "NewReplicaSetCreated"
	found      = "FoundNewReplicaSet"
	updated    = "ReplicaSetUpdated"
	finished   = "NewReplicaSetAvailable"
	timedOut   = "ProgressDeadlineExceeded"
	notCreated = "ReplicaSetCreateError"
	isPaused   = "DeploymentPaused"
	isResumed  = "DeploymentResumed"
)

// conditions are the conditions that belong to the new status. Progress is only decided where something is rolled out:
// not while deleting, and while paused or scaling only as far as said below (DEP-60).
func (r *rollout) conditions(status *appsv1.DeploymentStatus, did plan.Outcome) []appsv1.DeploymentCondition {
	list := slices.Clone(r.d.Status.Conditions)
	list = r.set(list, r.availability(status))
	if r.course == deleting || r.course == misguided {
		return list
	}
	if _, timed := r.deadline(); timed {
		list = r.pausing(list)
		list = r.beginning(list)
	}
	if r.rollsOut() {
		list = r.progress(list, status, did)
		list = r.failure(list)
	}
	return list
}

// rollsOut reports whether the reconcile was about the template (DEP-4.9, and DEP-4.7, which begins like it).
func (r *rollout) rollsOut() bool {
	return r.course == rolling || r.course == recreating || r.course == rollingBack
}

// deadline is how long a rollout may go without progress; false if for ever (DEP-70).
func (r *rollout) deadline() (d time.Duration, timed bool) {
	seconds := r.d.Spec.ProgressDeadlineSeconds
	if seconds == nil || *seconds == math.MaxInt32 {
		return 0, false
	}
	return workloads.Seconds(*seconds), true
}

// availability is the condition Available (DEP-67).
func (r *rollout) availability(status *appsv1.DeploymentStatus) appsv1.DeploymentCondition {
	if int64(status.AvailableReplicas) >= r.replicas-r.unavailable {
		return condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
	}
	return condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
		"Deployment does not have minimum availability.")
}

// pausing reports that the Deployment is paused, or was until now: then the deadline starts anew. What has timed out
// stays so (DEP-55, DEP-56).
func (r *rollout) pausing(list []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	reason := reasonOf(list)
	switch {
	case r.d.Spec.Paused && reason != timedOut:
		return r.set(list, progressing(corev1.ConditionUnknown, isPaused, "Deployment is paused"))
	case !r.d.Spec.Paused && reason == isPaused:
		return r.set(list, progressing(corev1.ConditionUnknown, isResumed, "Deployment is resumed"))
	}
	return list
}

// beginning reports that a rollout has begun (DEP-27, DEP-69).
func (r *rollout) beginning(list []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	if r.new == nil || r.d.Spec.Paused {
		return list
	}
	begins := r.begins()
	switch {
	case begins && r.madeForThis():
		return r.put(list, progressing(corev1.ConditionTrue, created, "Created new replica set %q", r.new.Name),
			r.seenAt(r.Seen.Began))
	case begins || find(list, appsv1.DeploymentProgressing) == nil:
		return r.put(list, progressing(corev1.ConditionTrue, found, "Found new replica set %q", r.new.Name),
			r.seenAt(r.Seen.Began))
	}
	return list
}

// madeForThis reports whether the new ReplicaSet was created for the present revision, not brought back.
func (r *rollout) madeForThis() bool {
	_, raised := r.revision()
	has := labels.Set(r.new.Annotations).Has
	if has(historyAnnotation) || raised && has(revisionAnnotation) {
		return false
	}
	name, _ := r.TemplateMatches.newName(r.d)
	return r.new.Name == name
}

// progress is the condition Progressing of a rollout (DEP-70..75).
func (r *rollout) progress(list []appsv1.DeploymentCondition, status *appsv1.DeploymentStatus,
	did plan.Outcome) []appsv1.DeploymentCondition {
	deadline, timed := r.deadline()
	if !timed {
		return drop(list, appsv1.DeploymentProgressing)
	}
	if err := createError(did); err != nil {
		name, _ := r.TemplateMatches.newName(r.d)
		return r.set(list,
			progressing(corev1.ConditionFalse, notCreated, "Failed to create new replica set %q: %v", name, err))
	}
	now, at, advanced := find(list, appsv1.DeploymentProgressing), r.now, progressed(r.storedCounts(), status)
	if advanced {
		at = r.seenAt(r.Seen.Progressed)
	}
	switch {
	case now != nil && now.Reason == finished && status.Replicas == status.UpdatedReplicas:
		return list // what happens to the pods of a finished rollout is not progress (DEP-75)
	case r.new != nil && complete(r.d, status):
		if now != nil && now.Reason == finished {
			return list
		}
		return r.put(list, progressing(corev1.ConditionTrue, finished, "%s has successfully progressed.", r.subject()),
			at)
	case advanced:
		return r.put(list, progressing(corev1.ConditionTrue, updated, "%s is progressing.", r.subject()), at)
	case now != nil && now.Reason != finished && r.progressedAt(now).Add(deadline).Before(r.now):
		return r.set(list, progressing(corev1.ConditionFalse, timedOut, "%s has timed out progressing.", r.subject()))
	}
	return list
}

// progressedAt is when a rollout has last made progress. If this process has seen that, the monotonic clock measures
// what has passed since.
func (r *rollout) progressedAt(c *appsv1.DeploymentCondition) time.Time {
	at := c.LastUpdateTime.Time
	if seen := r.Seen.Progressed; seen.Truncate(time.Second).Equal(at) {
		return plan.SeenAt(at, seen)
	}
	return at
}

// deadlineIn returns when to check whether the deadline has passed (DEP-74); zero if none runs. A finished rollout
// never times out, so it needs no timer (DEP-74b).
func (r *rollout) deadlineIn(status *appsv1.DeploymentStatus) time.Duration {
	deadline, timed := r.deadline()
	now := find(status.Conditions, appsv1.DeploymentProgressing)
	if !timed || !r.rollsOut() || now == nil || now.Reason == finished || now.Reason == timedOut {
		return 0
	}
	return max(0, r.progressedAt(now).Add(deadline+time.Second).Sub(r.now))
}

// createError returns what kept the new ReplicaSet from being created. That its name is taken only means that the
// cache was stale (DEP-25).
func createError(did plan.Outcome) error {
	err := did.Failed(plan.Created)
	if apierrors.IsAlreadyExists(err) || errors.Is(err, plan.ErrStale) {
		return nil
	}
	return err
}

// failure passes on what keeps a ReplicaSet from making or deleting pods: always what it says now (DEP-68).
func (r *rollout) failure(list []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	for _, s := range r.sets() {
		i := slices.IndexFunc(s.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
			return c.Type == appsv1.ReplicaSetReplicaFailure
		})
		if i < 0 {
			continue
		}
		c := s.Status.Conditions[i]
		failure := condition(appsv1.DeploymentReplicaFailure, c.Status, c.Reason, c.Message)
		failure.LastUpdateTime, failure.LastTransitionTime = c.LastTransitionTime, c.LastTransitionTime
		if now := find(list, failure.Type); now != nil && equality.Semantic.DeepEqual(*now, failure) {
			return list
		}
		return append(drop(list, failure.Type), failure)
	}
	return drop(list, appsv1.DeploymentReplicaFailure)
}

// failed reports whether a failure has come, changed or gone.
func failed(before, after []appsv1.DeploymentCondition) bool {
	a, b := find(before, appsv1.DeploymentReplicaFailure), find(after, appsv1.DeploymentReplicaFailure)
	if !equality.Semantic.DeepEqual(a, b) {
		return true
	}
	a, b = find(before, appsv1.DeploymentProgressing), find(after, appsv1.DeploymentProgressing)
	return b != nil && b.Status == corev1.ConditionFalse && (a == nil || a.Reason != b.Reason)
}

// flipped reports whether something has changed that others wait for: availability, or being paused.
func flipped(before, after []appsv1.DeploymentCondition) bool {
	a, b := find(before, appsv1.DeploymentAvailable), find(after, appsv1.DeploymentAvailable)
	if a != nil && b != nil && a.Status != b.Status {
		return true
	}
	now := reasonOf(after)
	return (now == isPaused || now == isResumed) && now != reasonOf(before)
}

// subject names what makes progress.
func (r *rollout) subject() string {
	if r.new == nil {
		return fmt.Sprintf("Deployment %q", r.d.Name)
	}
	return fmt.Sprintf("ReplicaSet %q", r.new.Name)
}

// set puts a condition into the list, unless one of the same status and reason is there (DEP-66).
func (r *rollout) set(list []appsv1.DeploymentCondition, c appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	if now := find(list, c.Type); now != nil && now.Status == c.Status && now.Reason == c.Reason {
		return list
	}
	return r.put(list, c, r.now)
}

// put puts a condition into the list in any case, as of the given time, in whole seconds as servers store it: within
// the same second there may be nothing to write.
func (r *rollout) put(list []appsv1.DeploymentCondition, c appsv1.DeploymentCondition,
	at time.Time) []appsv1.DeploymentCondition {
	c.LastUpdateTime = metav1.NewTime(at.Truncate(time.Second))
	c.LastTransitionTime = c.LastUpdateTime
	if now := find(list, c.Type); now != nil && now.Status == c.Status {
		c.LastTransitionTime = now.LastTransitionTime
	}
	return append(drop(list, c.Type), c)
}

// find returns the condition of a type, nil if there is none. It is part of the list.
func find(list []appsv1.DeploymentCondition, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// drop takes the condition of a type off the list.
func drop(list []appsv1.DeploymentCondition, t appsv1.DeploymentConditionType) []appsv1.DeploymentCondition {
	return slices.DeleteFunc(list, func(c appsv1.DeploymentCondition) bool { return c.Type == t })
}

// reasonOf returns the reason of the condition Progressing, empty if there is none.
func reasonOf(list []appsv1.DeploymentCondition) string {
	if c := find(list, appsv1.DeploymentProgressing); c != nil {
		return c.Reason
	}
	return ""
}

// progressing makes a condition Progressing, without its times.
func progressing(status corev1.ConditionStatus, reason, format string, args ...any) appsv1.DeploymentCondition {
	return condition(appsv1.DeploymentProgressing, status, reason, fmt.Sprintf(format, args...))
}

// condition makes a condition without its times, which put sets.
func condition(t appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason,
	message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: t, Status: status, Reason: reason, Message: message}
}
