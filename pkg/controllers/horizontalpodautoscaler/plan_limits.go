package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
)

// limited is what is left of a recommendation after stabilization and limits, and what the conditions say about that.
type limited struct {
	// Replicas is how many are left.
	Replicas   int32
	Stabilized string // the reason; empty if nothing was stabilized
	Limit      string // likewise
	// StableText and LimitedText are the messages of the conditions.
	StableText  string
	LimitedText string
}

// normalize bounds what the metrics ask for (HPA-40, HPA-41, HPA-43..47).
func normalize(now time.Time, s snapshot, h history, asked int32) limited {
	current := s.Target.Replicas
	if b := s.Autoscaler.Spec.Behavior; b != nil {
		l := stabilize(asked, current,
			h.extreme(now, window(b.ScaleUp, 0), asked, false),
			h.extreme(now, window(b.ScaleDown, s.Settings.Stabilization), asked, true))
		return s.limitByBehavior(now, l, h, b)
	}
	l := limited{Replicas: h.extreme(now, s.Settings.Stabilization, asked, true)}
	if l.Replicas != asked {
		l.Stabilized, l.StableText = "ScaleDownStabilized", stabilizedText("higher", "highest")
	}
	most, why := s.Autoscaler.Spec.MaxReplicas, tooMany
	if fastest := max(2*int64(current), 4); fastest < int64(most) {
		most, why = int32(fastest), scaleUpLimit
	}
	return l.bounded(s.minReplicas(), tooFew, most, why)
}

// window returns the stabilization window of one direction (HPA-42, HPA-43).
func window(r *autoscalingv2.HPAScalingRules, otherwise time.Duration) time.Duration {
	if r == nil || r.StabilizationWindowSeconds == nil {
		return otherwise
	}
	return workloads.Seconds(*r.StabilizationWindowSeconds)
}

// extreme returns the largest or the smallest of a number and the recommendations of a window.
func (h history) extreme(now time.Time, window time.Duration, n int32, largest bool) int32 {
	since := now.Add(-window)
	for _, r := range h.Recommendations {
		switch {
		case !r.At.After(since):
		case largest:
			n = max(n, r.Replicas)
		default:
			n = min(n, r.Replicas)
		}
	}
	return n
}

// stabilize brings the present number no further than the recommendations of both windows agree on (HPA-44).
func stabilize(asked, current, up, down int32) limited {
	l := limited{Replicas: current}
	if l.Replicas < up {
		l.Replicas = up
	}
	if l.Replicas > down {
		l.Replicas = down
	}
	switch {
	case l.Replicas == asked:
	case asked >= current:
		l.Stabilized, l.StableText = "ScaleUpStabilized", stabilizedText("lower", "lowest")
	default:
		l.Stabilized, l.StableText = "ScaleDownStabilized", stabilizedText("higher", "highest")
	}
	return l
}

// stabilizedText is the message of a condition about stabilization.
func stabilizedText(were, apply string) string {
	return "recent recommendations were " + were + " than current one, applying the " + apply + " recent recommendation"
}

// The reasons of limits.
const (
	tooMany        = "TooManyReplicas"
	tooFew         = "TooFewReplicas"
	scaleUpLimit   = "ScaleUpLimit"
	scaleDownLimit = "ScaleDownLimit"
)

// limitText returns what the condition says of a limit.
func limitText(reason string) string {
	switch reason {
	case tooMany:
		return "the desired replica count is more than the maximum replica count"
	case tooFew:
		return "the desired replica count is less than the minimum replica count"
	case scaleUpLimit:
		return "the desired replica count is increasing faster than the maximum scale rate"
	}
	return "the desired replica count is decreasing faster than the maximum scale rate"
}

// bounded returns l within limits.
func (l limited) bounded(least int32, below string, most int32, above string) limited {
	switch {
	case l.Replicas > most:
		l.Replicas, l.Limit = most, above
	case l.Replicas < least:
		l.Replicas, l.Limit = least, below
	}
	if l.Limit != "" {
		l.LimitedText = limitText(l.Limit)
	}
	return l
}

// limitByBehavior bounds how fast the size changes (HPA-45..47).
func (s snapshot) limitByBehavior(now time.Time, l limited, h history,
	b *autoscalingv2.HorizontalPodAutoscalerBehavior) limited {
	current := s.Target.Replicas
	switch {
	case l.Replicas > current:
		most, why := s.Autoscaler.Spec.MaxReplicas, tooMany
		if fastest := max(s.scaleUpTo(now, h, b.ScaleUp), current); fastest < most {
			most, why = fastest, scaleUpLimit
		}
		return l.bounded(0, "", most, why)
	case l.Replicas < current:
		least, why := s.minReplicas(), tooFew
		if fastest := min(s.scaleDownTo(now, h, b.ScaleDown), current); fastest > least {
			least, why = fastest, scaleDownLimit
		}
		return l.bounded(least, why, math.MaxInt32, "")
	}
	return l
}

// scaleUpTo returns how many replicas the policies allow at most. A share of no replicas is one: a target that is at
// zero (HPA-21) would never leave it.
func (s snapshot) scaleUpTo(now time.Time, h history, r *autoscalingv2.HPAScalingRules) int32 {
	return rulesOf(r, defaultUp()).reach(s.Target.Replicas, true, func(p autoscalingv2.HPAScalingPolicy) int64 {
		start := s.startOf(now, h, p)
		if p.Type == autoscalingv2.PodsScalingPolicy {
			return start + int64(p.Value)
		}
		return max(1, (start*(100+int64(p.Value))+99)/100)
	})
}

// scaleDownTo returns how many replicas the policies leave at least.
func (s snapshot) scaleDownTo(now time.Time, h history, r *autoscalingv2.HPAScalingRules) int32 {
	return rulesOf(r, defaultDown()).reach(s.Target.Replicas, false, func(p autoscalingv2.HPAScalingPolicy) int64 {
		start := s.startOf(now, h, p)
		if p.Type == autoscalingv2.PodsScalingPolicy {
			return start - int64(p.Value)
		}
		return start * (100 - int64(p.Value)) / 100
	})
}

// rules are those of one direction.
type rules struct {
	policies []autoscalingv2.HPAScalingPolicy
	choice   autoscalingv2.ScalingPolicySelect
}

// rulesOf returns rules with defaults where the server has left them out, which it never does (HPA-42).
func rulesOf(r *autoscalingv2.HPAScalingRules, otherwise []autoscalingv2.HPAScalingPolicy) rules {
	all := rules{otherwise, autoscalingv2.MaxChangePolicySelect}
	if r == nil {
		return all
	}
	if len(r.Policies) > 0 {
		all.policies = r.Policies
	}
	if r.SelectPolicy != nil {
		all.choice = *r.SelectPolicy
	}
	return all
}

// defaultUp and defaultDown are the policies that the API server fills in.
func defaultUp() []autoscalingv2.HPAScalingPolicy {
	return []autoscalingv2.HPAScalingPolicy{
		{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
		{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
	}
}

// defaultDown is the policy for fewer replicas.
func defaultDown() []autoscalingv2.HPAScalingPolicy {
	return []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}
}

// reach returns the limit that the chosen policy sets (HPA-46).
func (r rules) reach(current int32, up bool, limit func(autoscalingv2.HPAScalingPolicy) int64) int32 {
	if r.choice == autoscalingv2.DisabledPolicySelect {
		return current
	}
	highest := up == (r.choice != autoscalingv2.MinChangePolicySelect) // of the limits
	var found int64
	for i, p := range r.policies {
		switch n := limit(p); {
		case i == 0, highest && n > found, !highest && n < found:
			found = n
		}
	}
	return int32(min(max(found, 0), math.MaxInt32))
}

// startOf returns how many replicas there were at the beginning of a policy's period, as far as this controller has
// changed that (HPA-45). Evaluations begin a little after they are due, now sooner and now later. Without slack, that
// would decide whether a rescale still counts at the evaluation that is due when the policy's period is over.
func (s snapshot) startOf(now time.Time, h history, p autoscalingv2.HPAScalingPolicy) int64 {
	period := workloads.Seconds(p.PeriodSeconds)
	slack := min(s.Settings.Period, period) / 10
	since := now.Add(slack - period)
	return int64(s.Target.Replicas) - sum(h.Ups, since) + sum(h.Downs, since)
}

// sum is by how many replicas a target was scaled since then.
func sum(all []rescale, since time.Time) (n int64) {
	for _, r := range all {
		if r.At.After(since) {
			n += int64(r.By)
		}
	}
	return n
}
