package horizontalpodautoscaler

import (
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A row is a sentence: outside the limits no metric is asked.
func TestWithoutMetrics(t *testing.T) {
	for _, c := range []struct {
		name, reason, limited string
		s                     snapshot
		want                  int32
	}{
		{"HPA-17 a target of no replicas is left alone", "", "", at(0, 0), 0},
		{"HPA-17 also if the least is zero", "", "", at(0, 0, by(between(0, 3)), toZero), 0},
		{"HPA-17 and if it was scaled to zero while the gate was on", "", "",
			at(0, 0, by(conditioned(autoscalingv2.ScaledToZero, corev1.ConditionTrue))), 0},
		{"HPA-18 more than the most", "Current number of replicas above Spec.MaxReplicas", "", at(20, 1000, recommended(time.Second, 15)),
			10},
		{"HPA-19 fewer than the least", "Current number of replicas below Spec.MinReplicas", "",
			at(1, 0, by(between(5, 10)), recommended(time.Second, 7)), 5},
		{"HPA-72 what ScalingLimited said before stays", "Current number of replicas below Spec.MinReplicas", "False NotScaledToZero",
			at(1, 0, by(between(5, 10), conditioned(autoscalingv2.ScalingLimited, corev1.ConditionFalse))), 5},
		{"HPA-14 the least is one if none is given", "", "",
			at(0, 0, by(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = nil })), 0},
		{"HPA-21 a least that was raised while there are none", "Current number of replicas below Spec.MinReplicas", "",
			at(0, 0, toZero, by(between(2, 3), conditioned(autoscalingv2.ScaledToZero, corev1.ConditionTrue))), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.s.evaluates() {
				t.Error("metrics are read")
			}
			c.s.Readings, c.s.Pods = nil, nil
			p := planned(now, c.s)
			step := scaledBy(p)
			if (step != nil) != (c.want != c.s.Target.Replicas) ||
				step != nil && (step.New.(*autoscalingv1.Scale).Spec.Replicas != c.want || step.Why != c.reason) {
				t.Fatalf("%+v, want %d replicas", step, c.want)
			}
			d := decide(now, c.s)
			if reasonOf(d.Status, limits) != c.limited || d.Status.CurrentMetrics != nil { // HPA-52, HPA-72
				t.Errorf("%+v", d.Status)
			}
			if c.want == 0 &&
				(reasonOf(d.Status, active) != "False ScalingDisabled" ||
					messageOf(d.Status, active) != "scaling is disabled since the replica count of the target is zero") {
				t.Errorf("%+v", d.Status)
			}
		})
	}
}

func TestHPA21ScaleToZero(t *testing.T) {
	queue := func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.MinReplicas, h.Spec.Metrics = new(int32), []autoscalingv2.MetricSpec{external("queue", averaging("10"), nil)}
	}
	message := conditioned(autoscalingv2.ScaledToZero, corev1.ConditionTrue)
	notSaid := conditioned(autoscalingv2.ScaledToZero, corev1.ConditionFalse)
	texts := map[string]string{"True": "the HPA controller scaled the workload to zero",
		"False": "the HPA controller did not scale the workload to zero"}
	for _, c := range []struct {
		name string
		s    snapshot
		want int32 // after the plan
		zero string
	}{
		{"the status says it before it is done", at(2, 0, toZero, by(queue), answered(reading{})), 2, "True ScaledToZero"},
		{"it is done when the status says it", at(2, 0, toZero, by(queue, message), answered(reading{})), 0, "True ScaledToZero"},
		{"not if the metric asks for something meanwhile", at(2, 0, toZero, by(queue, message), answered(reading{Sum: 20_000})), 2,
			"False NotScaledToZero"},
		{"it wakes up", at(0, 0, toZero, by(queue, message), answered(reading{Sum: 25_000})), 3, "False NotScaledToZero"},
		{"HPA-37 it wakes up by a value",
			at(0, 0, toZero, by(queue, measuring(external("queue", valued("10"), nil)), message), answered(reading{Sum: 25_000})), 3,
			"False NotScaledToZero"},
		{"it sleeps on", at(0, 0, toZero, by(queue, message), answered(reading{})), 0, "True ScaledToZero"},
		{"whoever else has set it to zero has switched it off", at(0, 0, toZero, by(queue, notSaid), answered(reading{Sum: 25_000})), 0,
			"False NotScaledToZero"},
		{"the condition goes with the gate, when it scales", at(2, 0, by(queue, between(1, 9), message), answered(reading{Sum: 50_000})), 4,
			""},
		{"or when it is switched off", at(0, 0, by(queue, message)), 0, ""},
		{"every scale says so", at(2, 0, toZero, by(queue), answered(reading{Sum: 40_000})), 4, "False NotScaledToZero"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(now, c.s)
			got := c.s.Target.Replicas
			if step := scaledBy(p); step != nil {
				got = step.New.(*autoscalingv1.Scale).Spec.Replicas
			}
			if got != c.want {
				t.Errorf("%d replicas, want %d: %s", got, c.want, p.Why)
			}
			status := settled(now, c.s, decide(now, c.s), carriedOut(p))
			if reasonOf(status, atZero) != c.zero {
				t.Errorf("%+v, want %s", status.Conditions, c.zero)
			}
			if i := strings.Index(c.zero, " "); i > 0 && messageOf(status, atZero) != texts[c.zero[:i]] && messageOf(status, atZero) != "" {
				t.Errorf("it says %q", messageOf(status, atZero))
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	for _, c := range []struct {
		name, event, active, message string
		edit                         edit
	}{
		{"HPA-15, HPA-73 there is none", "Warning SelectorRequired: selector is required", "False InvalidSelector",
			"the HPA target's scale is missing a selector", func(s *snapshot) { s.Target.Labels = "" }},
		{"HPA-15 it cannot be read",
			"Warning InvalidSelector: couldn't convert selector into a corresponding internal selector object: bad",
			"False InvalidSelector",
			"couldn't convert selector into a corresponding internal selector object: bad", func(s *snapshot) { s.SelectorErr = "bad" }},
		{"HPA-16 HPA-60 others select the same pods",
			"Warning AmbiguousSelector: pods by selector app=web are controlled by more than one HPA (e.g. [shop/other shop/web])",
			"False AmbiguousSelector",
			"pods by selector app=web are controlled by more than one HPA (e.g. [shop/other shop/web])",
			func(s *snapshot) { s.Ambiguous = []string{"shop/other", "shop/web"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := at(4, 100, c.edit)
			p := planned(now, s)
			first, second, _ := strings.Cut(eventsOf(p), "\n")
			if first != c.event || !strings.HasPrefix(second, "Warning FailedComputeMetricsReplicas: ") || scaledBy(p) != nil {
				t.Error(eventsOf(p))
			}
			if d := decide(now, s); reasonOf(d.Status, active) != c.active || messageOf(d.Status, active) != c.message {
				t.Errorf("%+v", d.Status)
			}
		})
	}
}

func TestHPA13NoTarget(t *testing.T) {
	s := at(4, 100, func(s *snapshot) { s.Target, s.TargetErr = nil, `deployments.apps "web" not found` })
	if got := eventsOf(planned(now, s)); got != `Warning FailedGetScale: deployments.apps "web" not found` { // HPA-58
		t.Error(got)
	}
	status := writtenBy(reported(now, s, plan.Outcome{}))
	if reasonOf(*status, able) != "False FailedGetScale" ||
		messageOf(*status, able) != `the HPA controller was unable to get the target's current scale: deployments.apps "web" not found` {
		t.Errorf("%+v", status)
	}
	if m := remembered(now, at(4, 0, func(s *snapshot) { s.Target, s.Known = nil, false }), plan.Outcome{}); m != nil {
		t.Errorf("%+v", m)
	}
}

func TestHPA48ChangeOfTheScale(t *testing.T) {
	s := at(4, 100)
	step := scaledBy(planned(now, s))
	before, after := step.Old.(*autoscalingv1.Scale), step.New.(*autoscalingv1.Scale)
	if step.Kind != deploymentKind() || before.Spec.Replicas != 4 || after.Spec.Replicas != 8 || after.ResourceVersion != "7" ||
		after.UID != "uid-web" || !step.Unowned {
		t.Errorf("%+v", step)
	}
	// HPA-56
	if e := step.Events.Done; e != (plan.Event{Type: "Normal", Reason: "SuccessfulRescale",
		Message: "New size: 8; reason: cpu resource utilization (percentage of request) above target"}) {
		t.Error(e)
	}
	// HPA-57
	if e := step.Events.Failed; e != warning("FailedRescale",
		"New size: 8; reason: cpu resource utilization (percentage of request) above target; error: {error}") {
		t.Error(e)
	}
	if p := planned(now, at(4, 50)); len(p.Steps) != 0 || p.Requeue != 15*time.Second { // HPA-25, HPA-8
		t.Errorf("%+v", p)
	}
}
