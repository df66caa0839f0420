package statefulset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestMetrics(t *testing.T) {
	exists := true
	c := newCollectors(true, func(*appsv1.StatefulSet) bool { return exists })
	registry := metrics.NewKubeRegistry()
	c.register(registry.MustRegister)
	values := func() map[string]float64 {
		all := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				all[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return all
	}
	const most, unavailable = "statefulset_controller_statefulset_max_unavailable", "statefulset_controller_statefulset_unavailable_replicas"
	set := web(3)
	c.countStale(schema.GroupResource{Resource: "pods"})
	c.applied(t.Context(), see(set, revision("v1", 1, set), pod(set, 0, "v1")), plan.Outcome{})
	if got := values(); got[most] != 1 || got[unavailable] != 2 || got["statefulset_controller_stale_sync_skips_total"] != 1 {
		t.Errorf("STS-80, STS-81 %v", got)
	}
	if keys := c.enqueues(set, nil); len(keys) != 1 || keys[0].Name != "web" {
		t.Errorf("enqueues %v", keys)
	}
	exists = false
	c.applied(t.Context(), see(set, revision("v1", 1, set)), plan.Outcome{})
	if got := values(); got[most] != 0 || got[unavailable] != 0 {
		t.Errorf("STS-105 of a set that is gone: %v", got)
	}
	off := newCollectors(false, nil)
	off.register(metrics.NewKubeRegistry().MustRegister)
	off.applied(t.Context(), see(set), plan.Outcome{})
	if keys := off.enqueues(set, set); len(keys) != 1 {
		t.Errorf("STS-80 without the gate: %v", keys)
	}
}
