package horizontalpodautoscaler

import (
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// before is the history of the autoscaler. What another leader has done is read from the object, as far as it says it
// (HPA-11, HPA-70).
func (s snapshot) before(now time.Time) history {
	if s.Known || s.Target == nil {
		return s.History
	}
	current := s.Target.Replicas
	h := history{Recommendations: []recommendation{{now, current}}}
	status := &s.Autoscaler.Status
	by := status.DesiredReplicas - status.CurrentReplicas
	if status.LastScaleTime == nil || status.DesiredReplicas != current || s.Autoscaler.Spec.Behavior == nil {
		return h
	}
	switch at := status.LastScaleTime.Time; { // its status is that of the last rescale still
	case by > 0:
		h.Ups = []rescale{{at, by}}
	case by < 0:
		h.Downs = []rescale{{at, -by}}
	}
	return h
}

// remember returns what is known when the plan was carried out: what the metrics asked for, before any limits, and
// what was scaled.
func remember(now time.Time, s snapshot, d decision, did plan.Outcome) *memory {
	m := &memory{History: s.History, Due: now.Add(s.Next)}
	if s.Target == nil && !s.Known {
		return nil
	}
	h := s.before(now)
	if d.Asked != nil {
		h.Recommendations = append(slices.Clone(h.Recommendations), recommendation{now, *d.Asked})
	}
	if b := s.Autoscaler.Spec.Behavior; b != nil && rescaled(did) {
		if by := d.Desired - s.Target.Replicas; by > 0 {
			h.Ups = append(slices.Clone(h.Ups), rescale{now, by})
		} else {
			h.Downs = append(slices.Clone(h.Downs), rescale{now, -by})
		}
	}
	m.Scaled = s.Scaled
	if rescaled(did) {
		m.Scaled = now.Truncate(time.Second) // as the status has it
	}
	m.History = h.pruned(now, s)
	m.StaleSince, m.Shown = s.StaleSince, s.Autoscaler.Status.CurrentMetrics
	if m.StaleSince.IsZero() && small(s.Autoscaler.Status, settled(now, s, d, did)) {
		m.StaleSince = now
	}
	return m
}

// staleSince returns since when the values that the status of an autoscaler shows have not been those that were
// found. That ends when it shows others, not when they are about to be written: the write may fail.
func (m *memory) staleSince(h *autoscalingv2.HorizontalPodAutoscaler) time.Time {
	if !equality.Semantic.DeepEqual(m.Shown, h.Status.CurrentMetrics) {
		return time.Time{}
	}
	return m.StaleSince
}

// rescaled reports whether the target was scaled.
func rescaled(did plan.Outcome) bool {
	return slices.ContainsFunc(did.Results, func(r plan.Result) bool {
		return r.Subresource == scaleSubresource && r.Err == nil && r.Version != ""
	})
}

// pruned omits what no window and no policy looks at any more.
func (h history) pruned(now time.Time, s snapshot) history {
	longest, period := s.Settings.Stabilization, time.Duration(0)
	if b := s.Autoscaler.Spec.Behavior; b != nil {
		longest = max(window(b.ScaleUp, 0), window(b.ScaleDown, s.Settings.Stabilization))
		period = max(longestPeriod(b.ScaleUp), longestPeriod(b.ScaleDown))
	}
	old := func(at time.Time, keep time.Duration) bool { return !at.After(now.Add(-keep)) }
	oldRescale := func(r rescale) bool { return old(r.At, period) }
	h.Recommendations = slices.DeleteFunc(slices.Clone(h.Recommendations),
		func(r recommendation) bool { return old(r.At, longest) })
	h.Ups = slices.DeleteFunc(slices.Clone(h.Ups), oldRescale)
	h.Downs = slices.DeleteFunc(slices.Clone(h.Downs), oldRescale)
	return h
}

// longestPeriod is how long ago a rescale may be that a policy still looks at.
func longestPeriod(r *autoscalingv2.HPAScalingRules) time.Duration {
	longest := int32(15) // that of the defaults
	if r != nil {
		for _, p := range r.Policies {
			longest = max(longest, p.PeriodSeconds)
		}
	}
	return workloads.Seconds(longest)
}
