package horizontalpodautoscaler

import (
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportStatus writes the status, if it differs (HPA-55).
func reportStatus(now time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	h := s.Autoscaler
	status := settled(now, s, d, did)
	if equality.Semantic.DeepEqual(h.Status, status) || !s.written(now, status) {
		return plan.Plan{}
	}
	updated := h.DeepCopy()
	updated.Status = status
	return plan.Plan{Steps: []plan.Step{plan.Change{
		Old: h, New: updated, Subresource: plan.Status,
		Events: plan.Events{Failed: warning("FailedUpdateStatus", "{error}")},
		Why:    "the status differs",
	}}}
}

// settled is the status when it is known whether the target was scaled (HPA-49, HPA-50).
func settled(now time.Time, s snapshot, d decision, did plan.Outcome) autoscalingv2.HorizontalPodAutoscalerStatus {
	if !d.Rescale {
		return d.Status
	}
	d.Status = *d.Status.DeepCopy() // which set changes; the decision stays as it was made
	switch err := did.Failed(plan.Changed); {
	case err != nil:
		d.set(now, able, conditionFalse, "FailedUpdateScale",
			"the HPA controller was unable to update the target scale: "+err.Error())
		d.Status.DesiredReplicas = s.Autoscaler.Status.DesiredReplicas
	case rescaled(did) || !did.Wrote(): // when it is asked what the report would write, nothing has been tried
		d.set(now, able, conditionTrue, "SucceededRescale",
			fmt.Sprintf("the HPA controller was able to update the target scale to %d", d.Desired))
		at := metav1.NewTime(now)
		d.Status.LastScaleTime = &at
		// not before: a target that was to wake up and did not must be woken again
		if s.Settings.ToZero && d.Desired != 0 {
			d.set(now, atZero, conditionFalse, "NotScaledToZero", notScaledToZero)
		}
	default: // the target has gone meanwhile
		d.Status.DesiredReplicas = s.Autoscaler.Status.DesiredReplicas
	}
	return d.Status
}

// written reports whether a status that differs is to be written now: values that change a little wait for the next
// evaluation, so that autoscalers at rest do not write in every period. A decision that was repeated at once, after a
// conflict, is no next evaluation.
func (s snapshot) written(now time.Time, status autoscalingv2.HorizontalPodAutoscalerStatus) bool {
	return !small(s.Autoscaler.Status, status) || !s.StaleSince.IsZero() && now.Sub(s.StaleSince) >= s.Settings.Period/2
}

// small reports whether two statuses differ, but by nothing else than values of metrics, none by more than a tenth.
func small(a, b autoscalingv2.HorizontalPodAutoscalerStatus) bool {
	if len(a.CurrentMetrics) != len(b.CurrentMetrics) || equality.Semantic.DeepEqual(a, b) {
		return false
	}
	was, is := a, b
	was.CurrentMetrics, is.CurrentMetrics = nil, nil
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	return slices.EqualFunc(a.CurrentMetrics, b.CurrentMetrics, near)
}

// near reports whether two values of a metric differ by at most a tenth.
func near(a, b autoscalingv2.MetricStatus) bool {
	a, b = *a.DeepCopy(), *b.DeepCopy()
	was, is := valuesOf(&a), valuesOf(&b)
	if was == nil || is == nil {
		return equality.Semantic.DeepEqual(a, b)
	}
	alike := nearQuantity(was.Value, is.Value) && nearQuantity(was.AverageValue, is.AverageValue) &&
		nearPercent(was.AverageUtilization, is.AverageUtilization)
	*was, *is = autoscalingv2.MetricValueStatus{}, autoscalingv2.MetricValueStatus{}
	return alike && equality.Semantic.DeepEqual(a, b)
}

// valuesOf returns the value in the status of a metric, whatever its type is; nil if it has none.
func valuesOf(m *autoscalingv2.MetricStatus) *autoscalingv2.MetricValueStatus {
	switch {
	case m.Resource != nil:
		return &m.Resource.Current
	case m.ContainerResource != nil:
		return &m.ContainerResource.Current
	case m.Pods != nil:
		return &m.Pods.Current
	case m.Object != nil:
		return &m.Object.Current
	case m.External != nil:
		return &m.External.Current
	}
	return nil
}

// nearQuantity reports whether two quantities differ by at most a tenth, or are both missing.
func nearQuantity(a, b *resource.Quantity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return nearNumber(a.AsApproximateFloat64(), b.AsApproximateFloat64())
}

// nearPercent reports the same of percentages.
func nearPercent(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return nearNumber(float64(*a), float64(*b))
}

// nearNumber reports whether two numbers differ by at most a tenth of the first.
func nearNumber(a, b float64) bool { return max(a, b)-min(a, b) <= max(a, -a)*0.100001 }

// set sets a condition. The time of its transition changes with its status only (HPA-54).
func (d *decision) set(now time.Time, t autoscalingv2.HorizontalPodAutoscalerConditionType, is corev1.ConditionStatus,
	reason, message string) {
	all := d.Status.Conditions
	i := slices.IndexFunc(all, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == t })
	if i < 0 {
		i = 0
		for i < len(all) && rank(all[i].Type) < rank(t) {
			i++
		}
		all = slices.Insert(all, i, autoscalingv2.HorizontalPodAutoscalerCondition{Type: t})
	}
	if all[i].Status != is {
		all[i].Status, all[i].LastTransitionTime = is, metav1.NewTime(now)
	}
	all[i].Reason, all[i].Message = reason, message
	d.Status.Conditions = all
}

// drop takes a condition away.
func (d *decision) drop(t autoscalingv2.HorizontalPodAutoscalerConditionType) {
	d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions,
		func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == t })
}
