package podutil

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Finished reports whether the pod has ended for good: phase Succeeded or Failed.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Active reports whether the pod counts towards the size of its owner: neither finished nor being deleted (RS-12).
func Active(p *corev1.Pod) bool { return !Finished(p) && p.DeletionTimestamp == nil }

// Terminating reports whether the pod is being deleted and has not finished yet (RS-45).
func Terminating(p *corev1.Pod) bool { return !Finished(p) && p.DeletionTimestamp != nil }

// ReadyCondition returns the pod's Ready condition, nil if it has none.
func ReadyCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether the pod's Ready condition is True (RS-43).
func Ready(p *corev1.Pod) bool {
	c := ReadyCondition(p)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Available reports whether the pod has been ready for minReadySeconds at the given time (RS-44).
func Available(p *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	return Ready(p) && (minReadySeconds <= 0 || availableIn(p, minReadySeconds, now) == 0)
}

// AvailableIn returns how long it takes until the pod is available, if it stays ready. It is zero for a pod that is
// available already, and for one that will not become so by the passing of time alone.
func AvailableIn(p *corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	if !Ready(p) || minReadySeconds <= 0 {
		return 0
	}
	return max(0, availableIn(p, minReadySeconds, now))
}

// availableIn is negative when no time will do: a ready pod that does not say since when.
func availableIn(p *corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	since := ReadyCondition(p).LastTransitionTime
	if since.IsZero() {
		return -1
	}
	return max(0, since.Add(workloads.Seconds(minReadySeconds)).Sub(now))
}

// Counts are the numbers that a set of pods adds to its owner's status.
type Counts struct {
	Active      int32         // neither finished nor being deleted
	Ready       int32         // of the active ones
	Available   int32         // of the ready ones
	Terminating int32         // being deleted, not finished
	Next        time.Duration // until the next ready pod becomes available; zero if none will by itself
}

// Count counts pods at the given time.
func Count(pods []*corev1.Pod, minReadySeconds int32, now time.Time) Counts {
	var c Counts
	for _, p := range pods {
		switch {
		case Terminating(p):
			c.Terminating++
		case Active(p):
			c.Active++
			if !Ready(p) {
				continue
			}
			c.Ready++
			if Available(p, minReadySeconds, now) {
				c.Available++
			} else if in := AvailableIn(p, minReadySeconds, now); in > 0 && (c.Next == 0 || in < c.Next) {
				c.Next = in
			}
		}
	}
	return c
}

// CountsAlike reports whether two versions of a pod add the same to their owner's status, so that a change from one to
// the other does not concern the owner.
func CountsAlike(a, b *corev1.Pod) bool {
	ra, rb := ReadyCondition(a), ReadyCondition(b)
	if (ra == nil) != (rb == nil) ||
		ra != nil && (ra.Status != rb.Status || !ra.LastTransitionTime.Equal(&rb.LastTransitionTime)) {
		return false
	}
	return a.UID == b.UID && Finished(a) == Finished(b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(a.Labels, b.Labels) && SameController(a, b)
}

// SameController reports whether two versions of an object belong to the same owner, or both to none.
func SameController(a, b metav1.Object) bool {
	ra, rb := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	return ra == nil && rb == nil || ra != nil && rb != nil && ra.UID == rb.UID
}

// Owns reports whether the owner controls another version of an orphan, which is among the pods. A pod whose controller
// changes while the caches are read may be seen twice; it must not be counted twice.
func Owns(owner metav1.Object, pods []*corev1.Pod, orphan *corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.UID == orphan.UID && metav1.IsControlledBy(p, owner)
	})
}

// Delete deletes pods of an owner, which gets an event of each.
func Delete(pods []*corev1.Pod, why string) plan.Step {
	return plan.Delete{Objects: plan.Objects(pods), Why: why, Events: plan.Events{
		Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulDelete", Message: "Deleted pod: {name}"},
		Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedDelete", Message: "Error deleting: {error}"},
	}}
}

// TargetNode returns the node that a pod is on or, as pods of DaemonSets say by their required node affinity, is
// meant for (DS-16); empty if neither is known.
func TargetNode(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	for _, term := range RequiredNodeTerms(&p.Spec) {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn &&
				len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// RequiredNodeTerms returns the terms of the required node affinity, of which one must match; none if nothing is
// required.
func RequiredNodeTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// Disrupt sets the condition by which Jobs know that a pod is not to blame for its end (PGC-15, TE-21). One that is
// true already keeps its time.
func Disrupt(p *corev1.Pod, now time.Time, reason, message string) {
	disrupted := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == disrupted.Type })
	if at < 0 {
		p.Status.Conditions = append(p.Status.Conditions, disrupted)
		return
	}
	before := p.Status.Conditions[at]
	disrupted.LastProbeTime = before.LastProbeTime
	if before.Status == corev1.ConditionTrue {
		disrupted.LastTransitionTime = before.LastTransitionTime
	}
	p.Status.Conditions[at] = disrupted
}

// Claims returns the names of the claims that the volumes of the pod name, also those of its ephemeral volumes.
func Claims(p *corev1.Pod) (names []string) {
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, EphemeralClaim(p, v))
		}
	}
	return names
}

// EphemeralClaim returns the name of the claim of an ephemeral volume.
func EphemeralClaim(p *corev1.Pod, v *corev1.Volume) string { return p.Name + "-" + v.Name }

// ClaimOf returns the name of the claim that a volume of a pod stands for; false if for none.
func ClaimOf(p *corev1.Pod, v *corev1.Volume) (name string, ok bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, true
	case v.Ephemeral != nil:
		return EphemeralClaim(p, v), true
	}
	return "", false
}
