package horizontalpodautoscaler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// The conditions of an autoscaler (HPA-54).
const (
	able           = autoscalingv2.AbleToScale
	active         = autoscalingv2.ScalingActive
	limits         = autoscalingv2.ScalingLimited
	atZero         = autoscalingv2.ScaledToZero
	conditionTrue  = corev1.ConditionTrue
	conditionFalse = corev1.ConditionFalse
)

// rank orders the conditions of a status, whichever is set first.
func rank(t autoscalingv2.HorizontalPodAutoscalerConditionType) int {
	return slices.Index([]autoscalingv2.HorizontalPodAutoscalerConditionType{able, active, limits, atZero}, t)
}

// verdict is what an evaluation of an autoscaler has come to.
type verdict struct {
	Status    autoscalingv2.HorizontalPodAutoscalerStatus // before it is known whether the target was scaled
	Desired   int32
	Rescale   bool
	Reason    string // for the new size
	Asked     *int32 // by the metrics; nil if they were not read, or have failed
	Events    []plan.Event
	Proposals []proposal
	Failed    bool
	Prepare   bool // the status has to say that the target is scaled to zero before it is
	Why       string
}

// planScale scales the target, if it is to be scaled, and tells what is wrong.
func planScale(now time.Time, s snapshot) plan.Plan {
	v := judge(now, s)
	p := plan.Plan{Why: v.Why, Requeue: s.Next} // HPA-8
	if v.Prepare {
		p.Requeue = min(p.Requeue, time.Second)
	}
	for _, e := range v.Events {
		p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Autoscaler, Event: e})
	}
	if !v.Rescale {
		return p
	}
	h, size := s.Autoscaler, fmt.Sprintf("New size: %d; reason: %s", v.Desired, v.Reason)
	p.Steps = append(p.Steps, plan.Change{ // HPA-48, HPA-56, HPA-57
		Kind:        s.Target.Kind,
		Old:         s.Target.scale(h.Namespace, h.Spec.ScaleTargetRef.Name, s.Target.Replicas),
		New:         s.Target.scale(h.Namespace, h.Spec.ScaleTargetRef.Name, v.Desired),
		Subresource: scaleSubresource,
		Unowned:     true,
		Events: plan.Events{
			Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulRescale", Message: size},
			Failed: warning("FailedRescale", size+"; error: {error}"),
		},
		Why: v.Reason,
	})
	return p
}

const (
	scaleSubresource = "scale"
	notScaledToZero  = "the HPA controller did not scale the target to zero replicas"
)

// judge evaluates an autoscaler.
func judge(now time.Time, s snapshot) verdict {
	v := verdict{Status: *s.Autoscaler.Status.DeepCopy(), Why: "the target has the size that it should have"}
	if g := s.Autoscaler.Generation; g > 0 {
		v.Status.ObservedGeneration = &g // HPA-67
	}
	if last := v.Status.LastScaleTime; !s.Scaled.IsZero() && (last == nil || last.Time.Before(s.Scaled)) { // the write of the status has failed
		at := metav1.NewTime(s.Scaled)
		v.Status.LastScaleTime = &at
	}
	if s.Target == nil { // HPA-13
		v.fail("FailedGetScale", s.TargetErr)
		v.set(now, able, conditionFalse, "FailedGetScale", "the HPA controller was unable to get the target's current scale: "+s.TargetErr)
		return v
	}
	v.set(now, able, conditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	current := s.Target.Replicas
	v.Desired = current
	switch {
	case s.minReplicas() < 0 || s.Autoscaler.Spec.MaxReplicas < max(s.minReplicas(), 1): // no server accepts that
		v.fail("FailedComputeMetricsReplicas", fmt.Sprintf("no number of replicas is from %d to %d", s.minReplicas(), s.Autoscaler.Spec.MaxReplicas))
		return v
	case current == 0 && !s.wakes(): // HPA-17
		v.set(now, active, conditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		v.Status.CurrentMetrics, v.Why = nil, "switched off: the target has no replicas"
		if !s.Settings.ToZero {
			v.drop(atZero)
		}
	case current > s.Autoscaler.Spec.MaxReplicas: // HPA-18
		v.outside(now, s.Autoscaler.Spec.MaxReplicas, tooMany, "Current number of replicas above Spec.MaxReplicas")
	case current < s.minReplicas(): // HPA-19
		v.outside(now, s.minReplicas(), tooFew, "Current number of replicas below Spec.MinReplicas")
	default:
		if !v.evaluate(now, s) {
			return v
		}
	}
	v.decided(now, s)
	return v
}

// outside brings the target back within its limits: no metrics, no stabilization, no rate.
func (v *verdict) outside(now time.Time, desired int32, reason, why string) {
	v.Desired, v.Reason, v.Why = desired, why, why
	v.Status.CurrentMetrics = nil                                // HPA-52
	v.set(now, limits, conditionTrue, reason, limitText(reason)) // HPA-72
}

// decided fills in what follows from the number of replicas.
func (v *verdict) decided(now time.Time, s snapshot) {
	v.Status.CurrentReplicas, v.Status.DesiredReplicas = s.Target.Replicas, v.Desired // HPA-51
	v.Rescale = v.Desired != s.Target.Replicas                                        // HPA-25
	if !s.Settings.ToZero {
		if v.Rescale { // HPA-21
			v.drop(atZero)
		}
		return
	}
	said := isTrue(s.Autoscaler.Status.Conditions, atZero)
	switch {
	case v.Rescale && v.Desired == 0:
		// The status says so first: if it could not be written afterwards, nobody would know that the target is to be woken.
		v.Prepare, v.Rescale = !said, said
		v.set(now, atZero, conditionTrue, "ScaledToZero", "the HPA controller scaled the target to zero replicas")
	case s.Target.Replicas > 0 && said: // it is not so, whoever has scaled the target
		v.set(now, atZero, conditionFalse, "NotScaledToZero", notScaledToZero)
	}
	if v.Prepare {
		v.Why = "the status has to say that the target is scaled to zero before it is"
	}
}

// evaluate asks the metrics. It returns false if they cannot say what the size should be.
func (v *verdict) evaluate(now time.Time, s snapshot) bool {
	v.Status.CurrentReplicas, v.Status.CurrentMetrics = s.Target.Replicas, nil // HPA-51
	if !v.selectable(now, s) {
		return false
	}
	metrics := s.Autoscaler.Spec.Metrics
	var first *proposal
	var best *proposal
	invalid := 0
	v.Proposals = make([]proposal, len(metrics))
	for i := range metrics {
		var r reading
		if i < len(s.Readings) {
			r = s.Readings[i]
		}
		p := &v.Proposals[i]
		*p = propose(now, s, &metrics[i], r)
		v.Status.CurrentMetrics = append(v.Status.CurrentMetrics, p.Status)
		switch {
		case p.Err != nil:
			v.Events = append(v.Events, p.event())
			invalid++
			if first == nil {
				first = p
			}
		case best == nil || p.Replicas > best.Replicas: // HPA-20
			best = p
		}
	}
	if first != nil && (best == nil || best.Replicas < s.Target.Replicas) { // HPA-22
		v.set(now, active, conditionFalse, first.Reason, "the HPA was unable to compute the replica count: "+first.Err.Error())
		v.fail("FailedComputeMetricsReplicas", fmt.Sprintf("invalid metrics (%d invalid out of %d), first error is: %s", invalid, len(metrics), first.explained()))
		return false
	}
	if best == nil { // an autoscaler without metrics, which no server accepts
		v.Why = "there are no metrics"
		return true
	}
	v.set(now, active, conditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+best.Name) // HPA-24
	v.Asked = &best.Replicas
	v.settle(now, s, best)
	return true
}

// settle brings what the metrics ask for within the limits.
func (v *verdict) settle(now time.Time, s snapshot, best *proposal) {
	l := normalize(now, s, s.before(now), best.Replicas)
	v.Desired = l.Replicas
	if l.Stabilized != "" {
		v.set(now, able, conditionTrue, l.Stabilized, l.StableText)
	} else {
		v.set(now, able, conditionTrue, "ReadyForNewScale", "recommended size matches current size")
	}
	if l.Limit != "" {
		v.set(now, limits, conditionTrue, l.Limit, l.LimitedText)
	} else {
		v.set(now, limits, conditionFalse, "DesiredWithinRange", "the desired count is within the acceptable range")
	}
	switch current := s.Target.Replicas; { // HPA-61
	case v.Desired < current:
		v.Reason = "All metrics below target"
	case v.Desired > current && best.Replicas > current:
		v.Reason = best.Name + " above target"
	case v.Desired > current:
		v.Reason = "recent recommendations above the current number of replicas"
	}
	if v.Desired != s.Target.Replicas {
		v.Why = fmt.Sprintf("scale to %d: %s", v.Desired, v.Reason)
	}
}

// selectable reports whether the pods of the target can be told (HPA-15, HPA-16).
func (v *verdict) selectable(now time.Time, s snapshot) bool {
	var reason, said, text string
	event := ""
	switch {
	case s.SelectorErr != "":
		reason, said = "InvalidSelector", "couldn't convert selector into a corresponding internal selector object: "+s.SelectorErr
		event, text = reason, said
	case s.Target.Labels == "":
		reason, said = "InvalidSelector", "selector is required"
		event, text = "SelectorRequired", "the HPA target's scale is missing a selector"
	case len(s.Ambiguous) > 0:
		reason = "AmbiguousSelector"
		said = fmt.Sprintf("pods by selector %s are controlled by multiple HPAs: [%s]", s.Target.Labels, strings.Join(s.Ambiguous, " "))
		event, text = reason, said
	default:
		return true
	}
	v.set(now, active, conditionFalse, reason, text)
	v.Events = append(v.Events, warning(event, said))
	v.fail("FailedComputeMetricsReplicas", said)
	return false
}

// fail notes that nothing can be decided.
func (v *verdict) fail(reason, message string) {
	v.Failed, v.Why = true, message
	v.Events = append(v.Events, warning(reason, message))
}
