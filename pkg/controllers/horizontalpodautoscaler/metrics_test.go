package horizontalpodautoscaler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestMetrics(t *testing.T) { // HPA-62, HPA-63, HPA-64, HPA-68
	c, registry := newCollectors(), metrics.NewKubeRegistry()
	registry.MustRegister(c.all()...)
	value := func(name, labels string) float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "horizontal_pod_autoscaler_controller_"+name {
				continue
			}
			for _, m := range f.GetMetric() {
				var all []string
				for _, l := range m.GetLabel() {
					all = append(all, l.GetValue())
				}
				if strings.Join(all, " ") == labels {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		return 0
	}
	c.itself(nil, web())
	c.itself(web(), web())
	c.itself(nil, web(called("other", "x")))
	up := at(4, 100, func(s *snapshot) { s.Due = now.Add(-time.Second) })
	countApplied(c, t.Context(), up, carriedOut(planned(now, up)))
	countApplied(c, t.Context(), at(4, 50), plan.Outcome{})
	countApplied(c, t.Context(), at(4, 50, answered(reading{Err: "gone"})), plan.Outcome{})
	countApplied(c, t.Context(), at(4, 50, func(s *snapshot) { s.Target, s.Unparsable = nil, true }), plan.Outcome{})
	for of, want := range map[string]float64{
		"num_horizontal_pod_autoscalers ": 2, "desired_replicas web shop": 4, "evaluation_lag_seconds ": 1,
		"reconciliations_total scale_up none": 1, "reconciliations_total none none": 1, "reconciliations_total none internal": 1,
		"reconciliations_total none spec":           1,
		"reconciliation_duration_seconds none none": 1, "metric_computation_total scale_up none Resource": 2,
		"metric_computation_total none internal Resource":            1,
		"metric_computation_duration_seconds scale_up none Resource": 2,
	} {
		name, labels, _ := strings.Cut(of, " ")
		if got := value(name, labels); got != want {
			t.Errorf("%s is %v, want %v", of, got, want)
		}
	}
	c.itself(web(), nil)
	countApplied(c, t.Context(), at(4, 50), plan.Outcome{}) // an evaluation that was under way
	if a, b := value("num_horizontal_pod_autoscalers", ""), value("desired_replicas", "web shop"); a != 1 || b != 0 {
		t.Error(a, b)
	}

	c.end() // of the term
	if a, b := value("num_horizontal_pod_autoscalers", ""), value("desired_replicas", "other shop"); a != 0 || b != 0 {
		t.Error(a, b)
	}
	c.begin(slices.Values([]*autoscalingv2.HorizontalPodAutoscaler{web()})) // others have gone meanwhile
	c.itself(nil, web())
	if a := value("num_horizontal_pod_autoscalers", ""); a != 1 {
		t.Error(a)
	}
}

func TestOptions(t *testing.T) { // HPA-1..7
	o := defaultOptions()
	if errs := o.Validate(); len(errs) != 0 {
		t.Error(errs)
	}
	section, fields := o.Configz()
	if got := fmt.Sprintf("%s %v", section, fields); got != "HPAController {5 {15s} {5m0s} 0.1 {5m0s} {30s}}" {
		t.Error(got)
	}
	for _, wrong := range []func(*Options){
		func(o *Options) { o.Workers = 0 }, func(o *Options) { o.SyncPeriod = 0 }, func(o *Options) { o.Tolerance = -1 },
		func(o *Options) { o.DownscaleStabilization = -1 }, func(o *Options) { o.CPUInitializationTime = -1 },
		func(o *Options) { o.InitialReadinessDelay = -1 },
	} {
		o := defaultOptions()
		wrong(o)
		if len(o.Validate()) != 1 {
			t.Errorf("%+v", o)
		}
	}
}
