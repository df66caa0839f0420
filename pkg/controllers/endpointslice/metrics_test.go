package endpointslice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What is written and what there is shows in the metrics (EPS-62..67), for both families (EPS-78), as long as the service exists.
func TestEPS64Metrics(t *testing.T) {
	exists := true
	c := newCollectors(func(plan.Key) bool { return exists })
	registry := metrics.NewKubeRegistry()
	for _, m := range c.all() {
		registry.MustRegister(m)
	}
	s := snapshotOf(web(dual, distributed("PreferSameZone")), nil, pods(150)...)
	s.Pods[0].Status.PodIPs = append(s.Pods[0].Status.PodIPs, s.Pods[0].Status.PodIPs[0])
	s.Pods[0].Status.PodIPs[1].IP = "fd00::1"
	did := plan.Outcome{}
	for _, sequence := range planSlices(now, s).Steps[0].(plan.Each).Sequences {
		for _, step := range sequence {
			did.Results = append(did.Results, plan.Result{Verb: plan.Created, Object: step.(plan.Create).Object})
		}
	}
	c.applied(t.Context(), s, struct{}{}, did, plan.Outcome{})
	const prefix = "endpoint_slice_controller_"
	values := func() map[string]float64 {
		all := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				all[strings.TrimPrefix(f.GetName(),
					prefix)] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
		return all
	}
	got := values()
	for name, value := range map[string]float64{
		"changes": 3, "syncs": 1, "num_endpoint_slices": 3, "endpoints_desired": 151, "desired_endpoint_slices": 3,
		"services_count_by_traffic_distribution": 1, "endpoints_added_per_sync": 151, "endpointslices_changed_per_sync": 3,
	} {
		if got[name] != value {
			t.Errorf("%s: %v, want %v", name, got[name], value)
		}
	}
	if keys := c.itself(s.Service, nil); len(keys) != 1 {
		t.Error(keys)
	}
	exists = false
	c.applied(t.Context(), s, struct{}{}, did, plan.Outcome{})
	for _, name := range []string{"num_endpoint_slices", "endpoints_desired", "desired_endpoint_slices",
		"services_count_by_traffic_distribution"} {
		if got := values()[name]; got != 0 {
			t.Errorf("%s: %v after the service has gone", name, got)
		}
	}
}

// A reconcile that leaves pods out because their nodes do not exist counts as failed.
func TestEPS31EPS66NodeNotFoundIsAnError(t *testing.T) {
	c := newCollectors(func(plan.Key) bool { return true })
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(c.syncs)
	c.applied(t.Context(), snapshotOf(web(), nil, pod("a", "10.0.0.1")), struct{}{}, plan.Outcome{}, plan.Outcome{})
	c.applied(t.Context(), snapshotOf(web(), nil, pod("a", "10.0.0.1"), pod("b", "10.0.0.2", on("gone"))), struct{}{}, plan.Outcome{},
		plan.Outcome{})
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(err, families)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"success": 1, "error": 1}, got); diff != "" {
		t.Error(diff)
	}
}
