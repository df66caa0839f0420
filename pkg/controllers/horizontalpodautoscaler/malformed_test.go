package horizontalpodautoscaler

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects and the answers of metrics APIs are, nothing panics, and no number of replicas below zero is written.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		fill(h)
		h.Namespace, h.Name = webKey.Namespace, webKey.Name
		if rapid.Bool().Draw(t, "has a target") {
			targeting("apps/v1", "Deployment", "web")(h)
			if rapid.Bool().Draw(t, "has limits") {
				between(1, 10)(h)
			}
		}
		types := []autoscalingv2.MetricSourceType{autoscalingv2.ResourceMetricSourceType, autoscalingv2.ContainerResourceMetricSourceType,
			autoscalingv2.PodsMetricSourceType, autoscalingv2.ObjectMetricSourceType, autoscalingv2.ExternalMetricSourceType, "Moon"}
		for i := range h.Spec.Metrics {
			h.Spec.Metrics[i].Type = rapid.SampledFrom(types).Draw(t, "type")
		}
		d := &appsv1.Deployment{}
		fill(d)
		d.Namespace, d.Name, d.Spec.Replicas = webKey.Namespace, "web", new(rapid.Int32Range(-1, 12).Draw(t, "replicas"))
		d.Spec.Selector = deployment("web", 1).Spec.Selector
		b := newBench(t, h, d)
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.Labels = webKey.Namespace, fmt.Sprint("web-", i), d.Spec.Selector.MatchLabels
			if rapid.Bool().Draw(t, "runs") {
				phase(corev1.PodRunning)(p)
			}
			b.put(t, p)
		}
		b.raw[podMetricsPath] = rapid.SampledFrom([]any{
			nil, "[]", "{}", `{"items":[{}]}`,
			`{"items":[{"metadata":{"name":"web-0"},"containers":[{"usage":{"cpu":"-1","memory":"9E"}}]}]}`,
			podMetrics(map[string]int64{"web-0": 1 << 60, "web-1": -5}),
		}).Draw(t, "answer")
		for _, m := range h.Spec.Metrics {
			if m.External != nil {
				b.raw[externalPath+m.External.Metric.Name] = `{"items":[{"value":"9E"},{"value":"-3"}]}`
			}
		}
		s := b.observed(t, now, webKey, nil)
		p := planned(now, s)
		if step := scaledBy(p); step != nil && step.New.(*autoscalingv1.Scale).Spec.Replicas < 0 {
			t.Errorf("%+v", step.New)
		}
		reported(now, s, plan.Outcome{})
		reported(now, s, carriedOut(p))
		remembered(now, s, carriedOut(p))
		countApplied(newCollectors(), klog.NewContext(t.Context(), logr.Discard()), s, carriedOut(p))
	})
}

// Whatever a metrics API answers, and whatever the selector of a scale is, nothing panics.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"items":[{"metadata":{"name":"web-0"},"containers":[{"usage":{"cpu":"1"}}]}]}`, "app=web")
	f.Add(`{"items":[{"value":"1e400"}]}`, "a in (b,c),!d,e!=f")
	f.Add(`{"items":null}`, "a>1")
	f.Fuzz(func(t *testing.T, answer, selector string) {
		h := web(targeting("example.com/v1", "Widget", "w"),
			measuring(used(corev1.ResourceCPU, "1"), external("queue", averaging("1"), nil)))
		b := newBench(t, h, pod(0))
		b.scales["widgets/w"] = &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1},
			Status: autoscalingv1.ScaleStatus{Selector: selector}}
		b.raw[podMetricsPath], b.raw[externalPath+"queue"] = answer, answer
		s := b.observed(t, now, webKey, nil)
		planned(now, s)
		reported(now, s, plan.Outcome{})
	})
}
