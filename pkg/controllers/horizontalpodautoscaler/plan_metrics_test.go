package horizontalpodautoscaler

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A row is a sentence: this target is to have so many replicas.
func TestPods(t *testing.T) {
	sidecar := container("sidecar", "100m")
	always := corev1.ContainerRestartPolicyAlways
	sidecar.RestartPolicy = &always
	wide := func(s *snapshot) { s.Autoscaler.Spec.MaxReplicas = 100 }
	podLevel := func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}}
	}
	all := func(e podEdit) edit {
		return func(s *snapshot) {
			for _, p := range s.Pods {
				e(p)
			}
		}
	}
	requesting := func(q *resource.Quantity) edit {
		return all(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *q })
	}
	sized := func(n int32) edit { return func(s *snapshot) { s.Target.Replicas, s.Target.Observed = n, n } }
	succeeded := phase(corev1.PodSucceeded)
	for _, c := range []struct {
		name string
		s    snapshot
		want int32
	}{
		{"HPA-32 at the target", at(4, 50), 4},
		{"HPA-33 twice the target", at(4, 100), 8},
		{"HPA-33 what is left over makes one more", at(3, 70), 5},
		{"HPA-33 half of the target", at(4, 25), 2},
		{"HPA-4 within the tolerance above", at(4, 55), 4},
		{"HPA-4 within the tolerance below", at(4, 45), 4},
		{"HPA-4 outside of it", at(4, 56), 5},
		{"HPA-7 a tolerance of its own above", at(4, 58, by(behaving(&autoscalingv2.HPAScalingRules{Tolerance: quantityOf("0.2")}, nil))),
			4},
		{"HPA-7 which is not that below",
			at(4, 43, by(behaving(&autoscalingv2.HPAScalingRules{Tolerance: quantityOf("0.2")},
				&autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32)}))), 4},
		{"HPA-7 no tolerance of its own without the gate",
			at(4, 58, by(behaving(&autoscalingv2.HPAScalingRules{Tolerance: quantityOf("0.2")}, nil)),
				func(s *snapshot) { s.Settings.OwnTolerance = false }), 5},
		{"HPA-32 the percentage is an integer", at(10, 55, wide), 10},
		{"HPA-32 the mean of values", at(4, 75, by(measuring(used(corev1.ResourceCPU, "50m")))), 6},
		{"MEND-9 those that have succeeded are no missing metrics",
			at(10, 200, wide, by(measuring(utilized(corev1.ResourceCPU, 100))), sized(5), having(5, succeeded), having(6, succeeded),
				having(7, succeeded), having(8, succeeded), having(9, succeeded), unmeasured(5, 6, 7, 8, 9)), 10},
		{"MEND-10 more than there can be", at(4, 1<<60, by(measuring(used(corev1.ResourceCPU, "1m")))), 8},
		{"MEND-12 the mean of values whose sum is more than an int64 can be",
			at(4, math.MaxInt64/2, wide, by(measuring(used(corev1.ResourceCPU, "4611686018427387903m")))), 4},
		{"MEND-12 a percentage of such",
			at(4, math.MaxInt64/2, wide, by(measuring(utilized(corev1.ResourceCPU, 100))),
				requesting(resource.NewMilliQuantity(math.MaxInt64/2, resource.DecimalSI))), 4},
		{"MEND-14 what the pod requests as a whole, without its overhead",
			at(2, 100, by(measuring(utilized(corev1.ResourceCPU, 100))), all(func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(
					"100m")}}
				p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			})), 2},
		{"HPA-28 a pod that is being deleted does not count", at(3, 100, having(2, terminating)), 4},
		{"HPA-28 nor does one that has failed", at(3, 100, having(2, phase(corev1.PodFailed))), 4},
		{"HPA-69 nor one that has succeeded", at(3, 100, having(2, phase(corev1.PodSucceeded)), unmeasured(2)), 4},
		{"HPA-34 a pending pod uses nothing when that means more replicas", at(3, 100, having(2, phase(corev1.PodPending))), 4},
		{"HPA-33 and does not count when that means fewer", at(3, 20, having(2, phase(corev1.PodPending))), 1},
		{"HPA-34 a pod without metrics uses nothing when that means more replicas", at(3, 100, unmeasured(2)), 4},
		{"HPA-34 and all that it requests when that means fewer", at(4, 20, unmeasured(3)), 4},
		{"HPA-34 or the target, if that is more than it requests",
			at(4, 50, by(measuring(utilized(corev1.ResourceCPU, 200))), unmeasured(3)), 2},
		{"HPA-34 or the target value", at(4, 20, by(measuring(used(corev1.ResourceCPU, "50m"))), unmeasured(3)), 3},
		{"HPA-35 nothing changes if that turns it round", at(4, 40, unmeasured(0, 1, 2)), 4},
		{"HPA-35 or if it would move against the direction",
			at(10, 100, having(0, phase(corev1.PodPending)), func(s *snapshot) { s.Pods = s.Pods[:3] }), 10},
		{"HPA-29 a pod that is starting", at(3, 100, having(2, started(time.Minute), ready(corev1.ConditionFalse, time.Minute))), 4},
		{"HPA-29 one whose sample is of before it was ready",
			at(3, 100, having(2, started(time.Minute), ready(corev1.ConditionTrue, 70*time.Second))), 4},
		{"HPA-29 one whose sample is of later", at(3, 100, having(2, started(4*time.Minute), ready(corev1.ConditionTrue, 81*time.Second))),
			6},
		{"HPA-5 HPA-29 one that was ready and is not any more",
			at(3, 100, having(2, started(6*time.Minute), ready(corev1.ConditionFalse, time.Minute))), 6},
		{"HPA-6 HPA-29 one that never was ready",
			at(3, 100, having(2, started(6*time.Minute), ready(corev1.ConditionFalse, 6*time.Minute-20*time.Second))), 4},
		{"HPA-29 one that does not say when it has started", at(3, 100, having(2, func(p *corev1.Pod) { p.Status.StartTime = nil })), 4},
		{"HPA-29 one that says nothing of its readiness", at(3, 100, having(2, func(p *corev1.Pod) { p.Status.Conditions = nil })), 4},
		{"HPA-29 other resources count from the start", at(2, 200*1024*1024*1000, by(measuring(used(corev1.ResourceMemory, "100Mi"))),
			having(1, started(time.Minute), ready(corev1.ConditionFalse, time.Minute))), 4},
		{"HPA-31 sidecars are asked, too", at(2, 100, all(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{sidecar} })), 2},
		{"HPA-31 other init containers are not",
			at(2, 100, all(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "init"}} })), 4},
		{"HPA-31 what the pod requests as a whole", at(2, 100, all(podLevel)), 2},
		{"HPA-31 not without the gate", at(2, 100, all(podLevel), func(s *snapshot) { s.Settings.PodLevelRequests = false }), 4},
		{"HPA-31 nor if a container is named", at(2, 100, all(podLevel), by(measuring(usedByContainer("main", 50)))), 4},
		{"HPA-69 a pod that has ended need not request anything",
			at(3, 100, having(2, phase(corev1.PodFailed),
				func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })), 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decide(now, c.s)
			if d.Desired != c.want || d.Failed || reasonOf(d.Status, active) != "True ValidMetricFound" {
				t.Errorf("%d replicas, want %d: %s, %+v", d.Desired, c.want, d.Why, d.Status.Conditions)
			}
		})
	}
}

// A row is a sentence: such a value for the whole target asks for so many replicas, and is shown like this.
func TestObjectsAndExternalMetrics(t *testing.T) {
	of := func(sum int64) edit { return answered(reading{Sum: sum}) }
	wide := by(between(1, 100))
	for _, c := range []struct {
		name  string
		s     snapshot
		want  int32
		shown string
	}{
		{"HPA-37 twice the target", at(4, 0, by(measuring(ofObject("Service", "web", valued("10")))), of(20_000)), 8, "20"},
		{"HPA-37 within the tolerance", at(4, 0, by(measuring(ofObject("Service", "web", valued("10")))), of(11_000)), 4, "11"},
		{"HPA-37 within the tolerance, without pods",
			at(4, 0, by(measuring(ofObject("Service", "web", valued("10")))), of(11_000), func(s *snapshot) { s.Pods = nil }), 4, "11"},
		{"HPA-37 of ready pods only",
			at(4, 0, by(measuring(ofObject("Service", "web", valued("10")))), of(20_000), having(0, ready(corev1.ConditionFalse, 0)),
				having(1, phase(corev1.PodPending))), 4, "20"},
		{"MEND-10 HPA-37 more than there can be", at(4, 0, by(measuring(external("queue", valued("1m"), nil)), between(1, 7)), of(1<<62)),
			7, "4611686018427387904m"},
		{"HPA-38 an average for each replica", at(4, 0, by(measuring(external("queue", averaging("10"), nil))), of(90_000)), 8, "22500m"},
		{"HPA-38 within the tolerance", at(4, 0, by(measuring(external("queue", averaging("10"), nil))), of(44_000)), 4, "11"},
		{"HPA-38 the replicas count that are wanted, and not those that there are",
			at(4, 0, wide, by(measuring(external("queue", averaging("10"), nil))), of(44_000), observed(3)), 4, "14667m"},
		{"HPA-38 a rollout has one more",
			at(10, 0, wide, by(measuring(external("queue", averaging("10"), nil))), of(100_000), observed(11)), 10, "9091m"},
		{"HPA-38 a rollout has many more",
			at(10, 0, wide, by(measuring(ofObject("Service", "web", averaging("10")))), of(105_000), observed(13)), 10, "8077m"},
		{"HPA-38 more are needed in a rollout",
			at(10, 0, wide, by(measuring(external("queue", averaging("10"), nil))), of(130_000), observed(13)), 13, "10"},
		{"HPA-38 of more than there can be", at(1, 0, wide, by(measuring(external("queue", averaging("10"), nil))), of(math.MaxInt64)), 4,
			"9223372036854775807m"},
		{"HPA-38 with a target that is as large", at(4, 0, wide, by(measuring(external("queue", averaging("10P"), nil))), of(1000)), 1,
			"250m"},
		{"HPA-39 an object follows the type of its target",
			at(4, 0, by(measuring(ofObject("Service", "web", averaging("10")))), of(90_000)), 8, "22500m"},
		{"HPA-39 an external metric takes an average if both are given", at(4, 0, by(measuring(external("queue", autoscalingv2.MetricTarget{
			Type: autoscalingv2.ValueMetricType, Value: quantityOf("1"), AverageValue: quantityOf("10")}, nil))), of(90_000)), 8, "22500m"},
		{"MEND-13 HPA-69 an average of no replicas",
			at(4, 0, by(measuring(external("queue", averaging("10"), nil))), of(50_000), func(s *snapshot) { s.Target.Observed = 0 }), 5,
			"0"},
		{"MEND-13 of a target that was scaled to zero",
			at(0, 0, toZero,
				by(measuring(ofObject("Service", "web", averaging("10"))), between(0, 9), conditioned(atZero, corev1.ConditionTrue)),
				of(21_000)), 3, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decide(now, c.s)
			if d.Desired != c.want || d.Failed {
				t.Errorf("%d replicas, want %d: %s", d.Desired, c.want, d.Why)
			}
			if got := shownIn(d.Status); got != c.shown {
				t.Errorf("the status shows %s, want %s", got, c.shown)
			}
		})
	}
}

// observed is a target whose status tells of so many replicas.
func observed(n int32) edit { return func(s *snapshot) { s.Target.Observed = n } }

func shownIn(s autoscalingv2.HorizontalPodAutoscalerStatus) string {
	m := s.CurrentMetrics[0]
	v := valuesOf(&m)
	if v.Value != nil {
		return v.Value.String()
	}
	return v.AverageValue.String()
}

// A row is a sentence: an autoscaler whose metric fails says this, and leaves its target alone.
func TestFailingMetrics(t *testing.T) {
	no := "no metrics returned from resource metrics API"
	for _, c := range []struct {
		name, reason, failing, why string
		s                          snapshot
	}{
		{"HPA-26f there is no answer", "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu utilization: unable to get metrics for resource cpu: " + no, at(3, 50, answered(reading{Err: no}))},
		{"HPA-27, HPA-73 there are no pods", "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu utilization: no pods returned by selector while calculating replica count",
			at(3, 50, func(s *snapshot) { s.Pods = nil })},
		{"HPA-37 there are no pods to multiply", "FailedGetObjectMetric", "failed to get object metric value: ",
			"unable to calculate ready pods: no pods returned by selector while calculating replica count",
			at(2, 50, by(measuring(ofObject("Service", "web", valued("1")))), answered(reading{Sum: 1200}),
				func(s *snapshot) { s.Pods = nil })},
		{"HPA-30 no pod is ready", "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)",
			at(2, 50, having(0, phase(corev1.PodPending)), unmeasured(1))},
		{"HPA-31 a container requests nothing", "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu utilization: missing request for cpu in container main of Pod web-1",
			at(2, 50, having(1, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }))},
		{"HPA-31 the first pod by name is told, in whatever order they are", "FailedGetResourceMetric",
			"failed to get cpu resource metric value: ",
			"failed to get cpu utilization: missing request for cpu in container main of Pod web-0",
			at(2, 50, func(s *snapshot) {
				for _, p := range s.Pods {
					p.Spec.Containers[0].Resources.Requests = nil
				}
				s.Pods[0], s.Pods[1] = s.Pods[1], s.Pods[0]
			})},
		{"HPA-31 a pod requests something else as a whole", "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu utilization: missing pod-level request for cpu in Pod web-0",
			at(2, 50, having(0, func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(
					"1")}}
			}))},
		{"HPA-31 a container is missing", "FailedGetContainerResourceMetric", "failed to get other container metric value: ",
			"failed to get cpu utilization: container other not found in Pod web-0",
			at(2, 50, by(measuring(usedByContainer("other", 50))))},
		{"HPA-39 no target of an object", "FailedGetObjectMetric", "failed to get object metric value: ",
			"invalid object metric source: neither a value target nor an average value target was set",
			at(2, 50, by(measuring(ofObject("Service", "web", autoscalingv2.MetricTarget{}))))},
		{"HPA-39 no target of an external metric", "FailedGetExternalMetric", "failed to get queue external metric value: ",
			"invalid external metric source: neither a value target nor an average value target was set",
			at(2, 50, by(measuring(external("queue", autoscalingv2.MetricTarget{}, nil))))},
		{"HPA-59 a pods metric", "FailedGetPodsMetric", "failed to get pods metric value: ", "unable to get metric hits: gone",
			at(2, 50, by(measuring(ofPods("hits", "1"))), answered(reading{Err: "gone"}))},
		{"HPA-59 an object", "FailedGetObjectMetric", "failed to get object metric value: ",
			"unable to get metric requests on Service shop/web: gone",
			at(2, 50, by(measuring(ofObject("Service", "web", valued("1")))), answered(reading{Err: "gone"}))},
		{"HPA-59 an object by its average", "FailedGetObjectMetric",
			"failed to get object metric value: failed to get requests object metric: ",
			"unable to get metric requests on Service shop/web: gone",
			at(2, 50, by(measuring(ofObject("Service", "web", averaging("1")))), answered(reading{Err: "gone"}))},
		{"HPA-59 an external metric", "FailedGetExternalMetric",
			"failed to get queue external metric value: failed to get external metric queue: ",
			"unable to get external metric shop/queue/nil: gone",
			at(2, 50, by(measuring(external("queue", valued("1"), nil))), answered(reading{Err: "gone"}))},
		{"HPA-59 an external metric by its average", "FailedGetExternalMetric",
			"failed to get queue external metric value: failed to get queue external metric: ",
			"unable to get external metric shop/queue/nil: gone",
			at(2, 50, by(measuring(external("queue", averaging("1"), nil))), answered(reading{Err: "gone"}))},
		{"HPA-59 an unknown metric", "InvalidMetricSourceType", "", `unknown metric source type "Moon"`,
			at(2, 50, by(measuring(autoscalingv2.MetricSpec{Type: "Moon"})))},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Autoscaler.Status.CurrentReplicas, c.s.Autoscaler.Status.DesiredReplicas = 7, 8
			p := planned(now, c.s)
			// HPA-22, HPA-58
			want := "Warning " + c.reason + ": " + c.why +
				"\nWarning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: " + c.failing + c.why
			if got := eventsOf(p); got != want || scaledBy(p) != nil {
				t.Errorf("%s\nwant\n%s", got, want)
			}
			s := writtenBy(reported(now, c.s, plan.Outcome{}))
			if s == nil || reasonOf(*s, active) != "False "+c.reason ||
				messageOf(*s, active) != "the HPA was unable to compute the replica count: "+c.why {
				t.Errorf("%+v", s)
			}
			if s.CurrentReplicas != c.s.Target.Replicas || s.DesiredReplicas != 8 { // HPA-51
				t.Errorf("%+v", s)
			}
			if m := s.CurrentMetrics; len(m) != 1 || m[0] != (autoscalingv2.MetricStatus{}) { // HPA-52
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestSeveralMetrics(t *testing.T) {
	two := by(measuring(utilized(corev1.ResourceCPU, 50), external("queue", averaging("10"), map[string]string{"of": "web"})))
	cpu := func(use int64) reading { return at(4, use).Readings[0] }
	for _, c := range []struct {
		name   string
		s      snapshot
		want   int32
		active string
	}{
		{"HPA-20 the largest proposal counts", at(4, 0, two, answered(cpu(75), reading{Sum: 80_000})), 8, "True ValidMetricFound"},
		{"HPA-20 whichever it is", at(4, 0, two, answered(cpu(100), reading{Sum: 50_000})), 8, "True ValidMetricFound"},
		{"HPA-23 one fails, the other asks for more", at(4, 0, two, answered(cpu(100), reading{Err: "gone"})), 8, "True ValidMetricFound"},
		{"HPA-23 or for as many as there are", at(4, 0, two, answered(cpu(50), reading{Err: "gone"})), 4, "True ValidMetricFound"},
		{"HPA-22 or for fewer", at(4, 0, two, answered(cpu(20), reading{Err: "gone"})), 4, "False FailedGetExternalMetric"},
		{"HPA-22 both fail, the first one counts", at(4, 0, two, answered(reading{Err: "lost"}, reading{Err: "gone"})), 4,
			"False FailedGetResourceMetric"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decide(now, c.s)
			if d.Desired != c.want || reasonOf(d.Status, active) != c.active || len(d.Status.CurrentMetrics) != 2 { // HPA-52
				t.Errorf("%d replicas, want %d: %+v", d.Desired, c.want, d.Status)
			}
		})
	}
	if d := decide(now, at(4, 0, two, answered(reading{Err: "lost"}, reading{Err: "gone"}))); !strings.Contains(d.Why,
		"invalid metrics (2 invalid out of 2), first error is: ") {
		t.Error(d.Why)
	}
}

// The percentage of what many pods use is exact, and no more than an int32 can be.
func TestMEND12Utilization(t *testing.T) {
	const half = math.MaxInt64 / 2
	for _, c := range []struct {
		used, requested []int64
		want            int32
	}{
		{[]int64{half, half, half}, []int64{half, half, half}, 100},
		{[]int64{math.MaxInt64, math.MaxInt64}, []int64{half, half}, 200},
		{[]int64{math.MaxInt64, math.MaxInt64}, []int64{1, 1}, math.MaxInt32},
		{[]int64{1 << 58}, []int64{1<<58 + 1}, 99},
		{[]int64{-half, -half, -half}, []int64{1, 1, 1}, math.MinInt32},
	} {
		values, requests := map[string]int64{}, map[string]int64{}
		for i, v := range c.used {
			values[fmt.Sprint(i)], requests[fmt.Sprint(i)] = v, c.requested[i]
		}
		if got, ok := utilization(values, requests); !ok || got != c.want {
			t.Errorf("%v of %v is %d%%, want %d%%", c.used, c.requested, got, c.want)
		}
	}
	if got := average(map[string]int64{"a": math.MaxInt64, "b": math.MaxInt64, "c": math.MaxInt64 - 3}); got != math.MaxInt64-1 {
		t.Errorf("the mean is %d", got)
	}
}

// A row is a sentence: a scale by this metric has this reason.
func TestMEND15Reasons(t *testing.T) { // HPA-61
	for _, c := range []struct {
		metric autoscalingv2.MetricSpec
		want   string
	}{
		{utilized(corev1.ResourceCPU, 50), "cpu resource utilization (percentage of request)"},
		{usedByContainer("main", 50), "cpu container resource utilization (percentage of request)"},
		{used(corev1.ResourceCPU, "50m"), "cpu resource"},
		{ofPods("hits", "50m"), "pods metric hits"},
		{ofObject("Service", "web", valued("10")), "Service metric requests"},
		{ofObject("Service", "web", averaging("10")), "Service metric requests"},
		{external("queue", averaging("10"), nil), "external metric queue(nil)"},
		{external("queue", averaging("10"), map[string]string{"of": "web"}),
			"external metric queue(&LabelSelector{MatchLabels:map[string]string{of: web,},MatchExpressions:[]LabelSelectorRequirement{},})"},
	} {
		s := at(4, 100, by(measuring(c.metric)), func(s *snapshot) { s.Readings[0].Sum = 80_000 })
		p := planned(now, s)
		step := scaledBy(p)
		if step == nil || step.Events.Done.Message != "New size: 8; reason: "+c.want+" above target" {
			t.Errorf("%+v, want %s", step, c.want)
			continue
		}
		// HPA-24
		if got := messageOf(decide(now, s).Status, active); got != "the HPA was able to successfully calculate a replica count from "+
			c.want {
			t.Error(got)
		}
	}
	if step := scaledBy(planned(now, at(4, 10))); step.Events.Done.Message != "New size: 1; reason: All metrics below target" {
		t.Error(step.Events.Done.Message)
	}
}
