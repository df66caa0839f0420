package horizontalpodautoscaler

import (
	"math"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func rulesWith(window int32, choice autoscalingv2.ScalingPolicySelect,
	policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: &choice, Policies: policies}
}

func policy(kind autoscalingv2.HPAScalingPolicyType, value, seconds int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: kind, Value: value, PeriodSeconds: seconds}
}

// A row is a sentence: of what the metrics ask for, this is left, and the conditions AbleToScale and ScalingLimited say why.
func TestLimits(t *testing.T) {
	const (
		pods, percent       = autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy
		most, least, no     = autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect
		fits, stable, fewer = "True ReadyForNewScale", "True ScaleUpStabilized", "True ScaleDownStabilized"
		inRange             = "False DesiredWithinRange"
	)
	minute := int32(60)
	up := func(r *autoscalingv2.HPAScalingRules) edit { return by(behaving(r, nil)) }
	down := func(r *autoscalingv2.HPAScalingRules) edit { return by(behaving(nil, r)) }
	wide := by(between(1, 1000))
	zero := []edit{toZero, by(between(0, 1000), conditioned(atZero, corev1.ConditionTrue))}
	for _, c := range []struct {
		name          string
		current       int32
		asked         int32
		edits         []edit
		want          int32
		able, limited string
	}{
		{"HPA-40 an earlier recommendation was higher", 8, 2, []edit{recommended(4*time.Minute, 6)}, 6, fewer, inRange},
		{"HPA-40 HPA-3 it is too old", 8, 2, []edit{recommended(5*time.Minute, 6)}, 2, fits, inRange},
		{"HPA-40 the highest counts", 8, 2,
			[]edit{recommended(4*time.Minute, 6), recommended(3*time.Minute, 7), recommended(time.Minute, 3)}, 7, fewer, inRange},
		{"HPA-40 it does not hold up a scale-up", 4, 8, []edit{recommended(time.Minute, 2)}, 8, fits, inRange},
		{"HPA-11 a new leader does not scale down", 8, 2, []edit{func(s *snapshot) { s.Known = false }}, 8, fewer, inRange},
		{"HPA-11 but it scales up", 4, 8, []edit{func(s *snapshot) { s.Known = false }}, 8, fits, inRange},
		{"HPA-41 the most", 8, 20, nil, 10, fits, "True TooManyReplicas"},
		{"HPA-41 the least", 8, 0, []edit{by(between(2, 10))}, 2, fits, "True TooFewReplicas"},
		{"HPA-41 twice as many at once", 8, 100, []edit{wide}, 16, fits, "True ScaleUpLimit"},
		{"HPA-41 or four", 1, 100, []edit{wide}, 4, fits, "True ScaleUpLimit"},
		{"HPA-42 rules without policies: four", 1, 100, []edit{wide, by(behaving(nil, nil))}, 5, fits, "True ScaleUpLimit"},
		{"HPA-42 or twice as many", 8, 100, []edit{wide, by(behaving(nil, nil))}, 16, fits, "True ScaleUpLimit"},
		{"HPA-42 and down to the least at once", 8, 1, []edit{by(behaving(nil, nil))}, 1, fits, inRange},
		{"HPA-43 the window is that of the flag", 8, 2, []edit{by(behaving(nil, nil)), recommended(4*time.Minute, 6)}, 6, fewer, inRange},
		{"HPA-44 a window of its own", 8, 2,
			[]edit{down(rulesWith(60, most)), recommended(2*time.Minute, 6), recommended(59*time.Second, 5)}, 5, fewer, inRange},
		{"HPA-44 no window", 8, 2, []edit{down(rulesWith(0, most)), recommended(time.Second, 6)}, 2, fits, inRange},
		{"HPA-44 a window for the way up", 4, 8, []edit{up(rulesWith(60, most)), recommended(59*time.Second, 6)}, 6, stable, inRange},
		{"HPA-44 the lowest counts", 4, 8, []edit{up(rulesWith(60, most)), recommended(59*time.Second, 3), recommended(30*time.Second, 6)},
			4, stable, inRange},
		{"HPA-44 what was recommended long ago does not count", 4, 8, []edit{up(rulesWith(60, most)), recommended(time.Minute, 6)}, 8, fits,
			inRange},
		{"HPA-45 a number of pods", 4, 100, []edit{wide, up(rulesWith(0, most, policy(pods, 3, minute)))}, 7, fits, "True ScaleUpLimit"},
		{"HPA-45 of which some were added", 4, 100,
			[]edit{wide, up(rulesWith(0, most, policy(pods, 3, minute))), scaledUp(58*time.Second, 2)}, 5, fits, "True ScaleUpLimit"},
		{"HPA-45 too long ago", 4, 100, []edit{wide, up(rulesWith(0, most, policy(pods, 3, minute))), scaledUp(time.Minute, 2)}, 7, fits,
			"True ScaleUpLimit"},
		{"HPA-45 an evaluation that begins sooner after it is due than that of the rescale did", 4, 100,
			[]edit{wide, up(rulesWith(0, most, policy(pods, 3, 15))), scaledUp(15*time.Second-2*time.Millisecond, 2)}, 7, fits,
			"True ScaleUpLimit"},
		{"HPA-45 likewise on the way down", 8, 1,
			[]edit{down(rulesWith(0, most, policy(pods, 3, 15))), scaledDown(15*time.Second-2*time.Millisecond, 2)}, 5, fits,
			"True ScaleDownLimit"},
		{"HPA-45 one that begins much sooner", 4, 100,
			[]edit{wide, up(rulesWith(0, most, policy(pods, 3, 15))), scaledUp(13*time.Second, 2)}, 5, fits, "True ScaleUpLimit"},
		{"HPA-45 and some removed", 4, 100,
			[]edit{wide, up(rulesWith(0, most, policy(pods, 3, minute))), scaledUp(time.Second, 2), scaledDown(30*time.Second, 1)}, 6, fits,
			"True ScaleUpLimit"},
		{"HPA-21 a share of no replicas is one", 0, 5, append(zero, up(rulesWith(0, most, policy(percent, 100, minute)))), 1, fits,
			"True ScaleUpLimit"},
		{"HPA-46 none up from zero", 0, 5, append(zero, up(rulesWith(0, no, policy(pods, 3, minute)))), 0, fits, "True ScaleUpLimit"},
		{"HPA-45 a share, rounded up", 5, 100, []edit{wide, up(rulesWith(0, most, policy(percent, 50, minute)))}, 8, fits,
			"True ScaleUpLimit"},
		{"MEND-11 a share without a bound", 100, 1000, []edit{wide, up(rulesWith(0, most, policy(percent, math.MaxInt32, minute)))}, 1000,
			fits, inRange},
		{"MEND-11 more pods than there can be", 100, 1000, []edit{wide, up(rulesWith(0, most, policy(pods, math.MaxInt32, minute)))}, 1000,
			fits, inRange},
		{"HPA-45 a share that is an integer", 100, 1000, []edit{wide, up(rulesWith(0, most, policy(percent, 10, minute)))}, 110, fits,
			"True ScaleUpLimit"},
		{"HPA-46 more was added than is allowed", 9, 10,
			[]edit{wide, up(rulesWith(0, most, policy(pods, 1, minute))), scaledUp(time.Second, 5)}, 9, fits, "True ScaleUpLimit"},
		{"HPA-45 down by a number of pods", 8, 1, []edit{down(rulesWith(0, most, policy(pods, 3, minute)))}, 5, fits,
			"True ScaleDownLimit"},
		{"HPA-45 of which some were removed", 8, 1, []edit{down(rulesWith(0, most, policy(pods, 3, minute))), scaledDown(time.Second, 2)},
			7, fits, "True ScaleDownLimit"},
		{"HPA-45 down by a share, rounded down", 9, 1, []edit{down(rulesWith(0, most, policy(percent, 50, minute)))}, 4, fits,
			"True ScaleDownLimit"},
		{"HPA-46 the largest change", 8, 1, []edit{down(rulesWith(0, most, policy(pods, 3, minute), policy(percent, 50, minute)))}, 4, fits,
			"True ScaleDownLimit"},
		{"HPA-46 the smallest change", 8, 1, []edit{down(rulesWith(0, least, policy(pods, 3, minute), policy(percent, 50, minute)))}, 5,
			fits, "True ScaleDownLimit"},
		{"HPA-46 the largest change up", 8, 100, []edit{wide, up(rulesWith(0, most, policy(pods, 3, minute), policy(percent, 50, minute)))},
			12, fits, "True ScaleUpLimit"},
		{"HPA-46 the smallest change up", 8, 100,
			[]edit{wide, up(rulesWith(0, least, policy(pods, 3, minute), policy(percent, 50, minute)))}, 11, fits, "True ScaleUpLimit"},
		{"HPA-46 none down", 8, 1, []edit{down(rulesWith(0, no, policy(pods, 3, minute)))}, 8, fits, "True ScaleDownLimit"},
		{"HPA-46 none up", 8, 10, []edit{up(rulesWith(0, no, policy(pods, 3, minute)))}, 8, fits, "True ScaleUpLimit"},
		{"HPA-47 the most", 8, 100, []edit{up(rulesWith(0, most, policy(pods, 3, minute)))}, 10, fits, "True TooManyReplicas"},
		{"HPA-47 the least", 8, 1, []edit{by(between(6, 10)), down(rulesWith(0, most, policy(pods, 3, minute)))}, 6, fits,
			"True TooFewReplicas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := at(c.current, 0,
				append(c.edits, by(measuring(external("queue", averaging("1"), nil))), answered(reading{Sum: int64(c.asked) * 1000}))...)
			d := decide(now, s)
			if d.Desired != c.want || reasonOf(d.Status, able) != c.able || reasonOf(d.Status, limits) != c.limited {
				t.Errorf("%d replicas, want %d: %+v", d.Desired, c.want, d.Status.Conditions)
			}
			if *d.Asked != c.asked {
				t.Errorf("%d are stored as asked for", *d.Asked)
			}
		})
	}
}

// The texts of conditions are what users and tools match.
func TestHPA73Texts(t *testing.T) {
	for reason, want := range map[string]string{
		tooMany:        "the desired replica count is more than the maximum replica count",
		tooFew:         "the desired replica count is less than the minimum replica count",
		scaleUpLimit:   "the desired replica count is increasing faster than the maximum scale rate",
		scaleDownLimit: "the desired replica count is decreasing faster than the maximum scale rate",
	} {
		if got := limitText(reason); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	d := decide(now, at(4, 50))
	for kind, want := range map[autoscalingv2.HorizontalPodAutoscalerConditionType]string{
		able: "recommended size matches current size", limits: "the desired count is within the acceptable range",
		active: "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
	} {
		if got := messageOf(d.Status, kind); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	gone := func(s *snapshot) { s.Target, s.TargetErr = nil, "gone" }
	if got := messageOf(decide(now, at(4, 50, gone)).Status,
		able); got != "the HPA controller was unable to get the target's current scale: gone" {
		t.Error(got)
	}
	if got := messageOf(decide(now, at(0, 0)).Status, able); got != "the HPA controller was able to get the target's current scale" {
		t.Error(got)
	}
	if got := messageOf(decide(now, at(8, 1, recommended(time.Minute, 6))).Status,
		able); got != "recent recommendations were higher than current one, applying the highest recent recommendation" {
		t.Error(got)
	}
	if got := stabilizedText("lower",
		"lowest"); got != "recent recommendations were lower than current one, applying the lowest recent recommendation" {
		t.Error(got)
	}
}

// What is remembered is what the metrics asked for, and what was scaled, for as long as it counts (HPA-11, HPA-40, HPA-45, HPA-50).
func TestMemory(t *testing.T) {
	s := at(4, 100, by(between(1, 5)), recommended(5*time.Minute, 3), recommended(time.Minute, 2))
	m := remembered(now, s, carriedOut(planned(now, s)))
	want := []recommendation{{now.Add(-time.Minute), 2}, {now, 8}}
	if h := m.History; len(h.Recommendations) != 2 || h.Recommendations[0] != want[0] || h.Recommendations[1] != want[1] ||
		len(h.Ups) != 0 {
		t.Errorf("%+v", m)
	}
	if !m.Due.Equal(now.Add(15 * time.Second)) {
		t.Errorf("%+v", m)
	}
	rules := rulesWith(60, autoscalingv2.MaxChangePolicySelect, policy(autoscalingv2.PodsScalingPolicy, 3, 120))
	up := at(4, 100, by(behaving(rules, rules)), scaledUp(2*time.Minute, 9), scaledDown(time.Minute, 1))
	if h := remembered(now, up, carriedOut(planned(now, up))).History; len(h.Ups) != 1 || h.Ups[0] != (rescale{now, 4}) ||
		len(h.Downs) != 1 {
		t.Errorf("%+v", h)
	}
	down := at(4, 10, by(behaving(rules, rules)))
	if h := remembered(now, down, carriedOut(planned(now, down))).History; len(h.Downs) != 1 || h.Downs[0] != (rescale{now, 3}) {
		t.Errorf("%+v", h)
	}
	if h := remembered(now, up, plan.Outcome{}).History; len(h.Ups) != 0 {
		t.Errorf("a scale that was not done is remembered: %+v", h)
	}
	failing := at(4, 100, recommended(time.Minute, 2), answered(reading{Err: "gone"}))
	if h := remembered(now, failing, plan.Outcome{}).History; len(h.Recommendations) != 1 {
		t.Errorf("%+v", h)
	}
}

// A new leader reads from the status by how much its predecessor has scaled last, while the status is that of this scale (HPA-70).
func TestHistoryOfAnotherLeader(t *testing.T) {
	last := func(from, to int32) edit {
		return func(s *snapshot) {
			s.Known = false
			st := &s.Autoscaler.Status
			st.CurrentReplicas, st.DesiredReplicas, st.LastScaleTime = from, to, &metav1.Time{Time: now.Add(-time.Minute)}
		}
	}
	behavior := by(behaving(nil, nil))
	if h := at(4, 50, behavior, last(2, 4)).before(now); len(h.Ups) != 1 || h.Ups[0] != (rescale{now.Add(-time.Minute), 2}) ||
		len(h.Recommendations) != 1 {
		t.Errorf("%+v", h)
	}
	if h := at(4, 50, behavior, last(7, 4)).before(now); len(h.Downs) != 1 || h.Downs[0].By != 3 {
		t.Errorf("%+v", h)
	}
	for _, s := range []snapshot{at(4, 50, behavior, last(4, 4)), at(5, 50, behavior, last(2, 4)), at(4, 50, last(2, 4)),
		at(4, 50, behavior, func(s *snapshot) { s.Known = false })} {
		if h := s.before(now); len(h.Ups)+len(h.Downs) != 0 || len(h.Recommendations) != 1 {
			t.Errorf("%+v", h)
		}
	}
}
