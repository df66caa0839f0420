package statefulset

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// leads is a runner whose term as leader has ended.
type leads struct{}

func (leads) Run(context.Context) error    { return nil }
func (leads) Statuses() []reconcile.Status { return nil }

func (leads) Records() []*explain.Records { return nil }

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
	const most, unavailable = "statefulset_controller_statefulset_max_unavailable",
		"statefulset_controller_statefulset_unavailable_replicas"
	set := web(3)
	c.countStale(schema.GroupResource{Resource: "pods"})
	applied(t.Context(), c, see(set, revision("v1", 1, set), pod(set, 0, "v1")))
	if got := values(); got[most] != 1 || got[unavailable] != 2 || got["statefulset_controller_stale_sync_skips_total"] != 1 {
		t.Errorf("STS-80, STS-81 %v", got)
	}
	if err := (term{leads{}, c}).Run(t.Context()); err != nil || values()[most] != 0 || values()[unavailable] != 0 {
		t.Errorf("STS-80 after the term as leader: %v, %v", values(), err)
	}
	applied(t.Context(), c, see(set, revision("v1", 1, set), pod(set, 0, "v1")))
	if keys := c.enqueues(set, nil); len(keys) != 1 || keys[0].Name != "web" {
		t.Errorf("enqueues %v", keys)
	}
	exists = false
	applied(t.Context(), c, see(set, revision("v1", 1, set)))
	if got := values(); got[most] != 0 || got[unavailable] != 0 {
		t.Errorf("STS-105 of a set that is gone: %v", got)
	}
	off := newCollectors(false, nil)
	off.register(metrics.NewKubeRegistry().MustRegister)
	applied(t.Context(), off, see(set))
	if err := (term{leads{}, off}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if keys := off.enqueues(set, set); len(keys) != 1 {
		t.Errorf("STS-80 without the gate: %v", keys)
	}
}
