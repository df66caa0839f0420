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

// decision is what the evaluation of an autoscaler has come to. The function decide makes it; plan turns it
// into steps, the report into a status, and remember into the history.
type decision struct {
	Status autoscalingv2.HorizontalPodAutoscalerStatus // before it is known whether the target was scaled
	// Desired is how many replicas the target is to have.
	Desired int32
	// Rescale says that the target is scaled to that now.
	Rescale bool
	Reason  string // for the new size
	Asked   *int32 // by the metrics; nil if they were not read, or have failed
	// Events say what is wrong.
	Events []plan.Event
	// Proposals are what the metrics ask for, one for each that was read.
	Proposals []proposal
	// Failed says that the metrics cannot say what the size should be.
	Failed  bool
	Prepare bool // the status has to say that the target is scaled to zero before it is
	// Why says in words what was decided, for the explanation.
	Why string
}

// planScale evaluates an autoscaler. It scales the target, if it is to be scaled, and reports what is wrong.
func planScale(now time.Time, s snapshot) (decision, plan.Plan) {
	d := decide(now, s)
	return d, d.plan(s)
}

// plan is what follows from a decision: events, and the change of the scale.
func (d *decision) plan(s snapshot) plan.Plan {
	p := plan.Plan{Why: d.Why, Requeue: s.Next}
	if d.Prepare {
		p.Requeue = min(p.Requeue, time.Second)
	}
	for _, e := range d.Events {
		p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Autoscaler, Event: e})
	}
	if !d.Rescale {
		return p
	}
	h, size := s.Autoscaler, fmt.Sprintf("New size: %d; reason: %s", d.Desired, d.Reason)
	p.Steps = append(p.Steps, plan.Change{
		Kind:        s.Target.Kind,
		Old:         s.Target.scale(h.Namespace, h.Spec.ScaleTargetRef.Name, s.Target.Replicas),
		New:         s.Target.scale(h.Namespace, h.Spec.ScaleTargetRef.Name, d.Desired),
		Subresource: scaleSubresource,
		Unowned:     true,
		Events: plan.Events{
			Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulRescale", Message: size},
			Failed: warning("FailedRescale", size+"; error: {error}"),
		},
		Why: d.Reason,
	})
	return p
}

const (
	scaleSubresource = "scale"
	notScaledToZero  = "the HPA controller did not scale the workload to zero"
)

// decide evaluates an autoscaler.
func decide(now time.Time, s snapshot) decision {
	d := decision{Status: *s.Autoscaler.Status.DeepCopy(), Why: "the target has the size that it should have"}
	d.Status.ObservedGeneration = &s.Autoscaler.Generation
	// the write of the status has failed
	if last := d.Status.LastScaleTime; !s.Scaled.IsZero() && (last == nil || last.Time.Before(s.Scaled)) {
		at := metav1.NewTime(s.Scaled)
		d.Status.LastScaleTime = &at
	}
	if s.Target == nil {
		d.fail("FailedGetScale", s.TargetErr)
		d.set(now, able, conditionFalse, "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: "+s.TargetErr)
		return d
	}
	d.set(now, able, conditionTrue, "SucceededGetScale",
		"the HPA controller was able to get the target's current scale")
	current := s.Target.Replicas
	d.Desired = current
	switch {
	case s.minReplicas() < 0 || s.Autoscaler.Spec.MaxReplicas < max(s.minReplicas(), 1): // no server accepts that
		d.fail("FailedComputeMetricsReplicas",
			fmt.Sprintf("no number of replicas is from %d to %d", s.minReplicas(), s.Autoscaler.Spec.MaxReplicas))
		return d
	case current == 0 && !s.wakes():
		d.set(now, active, conditionFalse, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
		d.Status.CurrentMetrics, d.Why = nil, "switched off: the target has no replicas"
		if !s.Settings.ToZero {
			d.drop(atZero)
		}
	case current > s.Autoscaler.Spec.MaxReplicas:
		d.outside(s.Autoscaler.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas")
	case current < s.minReplicas():
		d.outside(s.minReplicas(), "Current number of replicas below Spec.MinReplicas")
	default:
		if !d.fromMetrics(now, s) {
			return d
		}
	}
	d.complete(now, s)
	return d
}

// outside brings the target back within its limits: no metrics, no stabilization, no rate. No metric was limited, so
// ScalingLimited says what it said before (HPA-72).
func (d *decision) outside(desired int32, why string) {
	d.Desired, d.Reason, d.Why = desired, why, why
	d.Status.CurrentMetrics = nil
}

// complete fills in what follows from the number of replicas.
func (d *decision) complete(now time.Time, s snapshot) {
	d.Status.CurrentReplicas, d.Status.DesiredReplicas = s.Target.Replicas, d.Desired
	d.Rescale = d.Desired != s.Target.Replicas
	if !s.Settings.ToZero {
		if d.Rescale {
			d.drop(atZero)
		}
		return
	}
	scaledToZero := isTrue(s.Autoscaler.Status.Conditions, atZero)
	switch {
	case d.Rescale && d.Desired == 0:
		// The status says so first: if it could not be written afterwards, nobody would know that the target is to be
		// woken.
		d.Prepare, d.Rescale = !scaledToZero, scaledToZero
		d.set(now, atZero, conditionTrue, "ScaledToZero", "the HPA controller scaled the workload to zero")
	case s.Target.Replicas > 0 && scaledToZero: // it is not so, whoever has scaled the target
		d.set(now, atZero, conditionFalse, "NotScaledToZero", notScaledToZero)
	}
	if d.Prepare {
		d.Why = "the status has to say that the target is scaled to zero before it is"
	}
}

// fromMetrics asks the metrics. It returns false if they cannot say what the size should be.
func (d *decision) fromMetrics(now time.Time, s snapshot) bool {
	d.Status.CurrentReplicas, d.Status.CurrentMetrics = s.Target.Replicas, nil
	if !d.selectable(now, s) {
		return false
	}
	metrics := s.Autoscaler.Spec.Metrics
	var first *proposal
	var best *proposal
	invalid := 0
	d.Proposals = make([]proposal, len(metrics))
	for i := range metrics {
		var r reading
		if i < len(s.Readings) {
			r = s.Readings[i]
		}
		p := &d.Proposals[i]
		*p = propose(now, s, &metrics[i], r)
		d.Status.CurrentMetrics = append(d.Status.CurrentMetrics, p.Status)
		switch {
		case p.Err != nil:
			d.Events = append(d.Events, p.event())
			invalid++
			if first == nil {
				first = p
			}
		case best == nil || p.Replicas > best.Replicas:
			best = p
		}
	}
	if first != nil && (best == nil || best.Replicas < s.Target.Replicas) {
		d.set(now, active, conditionFalse, first.Reason,
			"the HPA was unable to compute the replica count: "+first.Err.Error())
		d.fail("FailedComputeMetricsReplicas", fmt.Sprintf("invalid metrics (%d invalid out of %d), first error is: %s",
			invalid, len(metrics), first.explained()))
		return false
	}
	if best == nil { // an autoscaler without metrics, which no server accepts
		d.Why = "there are no metrics"
		return true
	}
	d.set(now, active, conditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from "+best.Name)
	d.Asked = &best.Replicas
	d.settle(now, s, best)
	return true
}

// settle brings what the metrics ask for within the limits.
func (d *decision) settle(now time.Time, s snapshot, best *proposal) {
	l := normalize(now, s, s.before(now), best.Replicas)
	d.Desired = l.Replicas
	if l.Stabilized != "" {
		d.set(now, able, conditionTrue, l.Stabilized, l.StableText)
	} else {
		d.set(now, able, conditionTrue, "ReadyForNewScale", "recommended size matches current size")
	}
	if l.Limit != "" {
		d.set(now, limits, conditionTrue, l.Limit, l.LimitedText)
	} else {
		d.set(now, limits, conditionFalse, "DesiredWithinRange", "the desired count is within the acceptable range")
	}
	switch current := s.Target.Replicas; {
	case d.Desired < current:
		d.Reason = "All metrics below target"
	case d.Desired > current && best.Replicas > current:
		d.Reason = best.Name + " above target"
	case d.Desired > current:
		d.Reason = "recent recommendations above the current number of replicas"
	}
	if d.Desired != s.Target.Replicas {
		d.Why = fmt.Sprintf("scale to %d: %s", d.Desired, d.Reason)
	}
}

// selectable reports whether the pods of the target can be found (HPA-15, HPA-16).
func (d *decision) selectable(now time.Time, s snapshot) bool {
	var reason, message, text string
	event := ""
	switch {
	case s.SelectorErr != "":
		reason, message = "InvalidSelector",
			"couldn't convert selector into a corresponding internal selector object: "+s.SelectorErr
		event, text = reason, message
	case s.Target.Labels == "":
		reason, message = "InvalidSelector", "selector is required"
		event, text = "SelectorRequired", "the HPA target's scale is missing a selector"
	case len(s.Ambiguous) > 0:
		reason = "AmbiguousSelector"
		message = fmt.Sprintf("pods by selector %s are controlled by more than one HPA (e.g. [%s])", s.Target.Labels,
			strings.Join(s.Ambiguous, " "))
		event, text = reason, message
	default:
		return true
	}
	d.set(now, active, conditionFalse, reason, text)
	d.Events = append(d.Events, warning(event, message))
	d.fail("FailedComputeMetricsReplicas", message)
	return false
}

// fail notes that nothing can be decided.
func (d *decision) fail(reason, message string) {
	d.Failed, d.Why = true, message
	d.Events = append(d.Events, warning(reason, message))
}
