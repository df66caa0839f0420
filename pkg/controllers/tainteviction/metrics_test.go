package tainteviction

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// How long an eviction was due is told in seconds.
func TestMEND22Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollectors()
		registry := metrics.NewKubeRegistry()
		registry.MustRegister(c.all()...)
		due := time.Now()
		time.Sleep(3 * time.Second)
		// TE-33: one of these was accepted.
		for _, r := range []plan.Result{{Verb: plan.Deleted}, {Verb: plan.Deleted, Needless: true}, {Verb: plan.Changed}} {
			did := plan.Outcome{Results: []plan.Result{r}}
			c.applied(t.Context(), snapshot{Pod: pod()}, decision{Evict: true, Due: due}, did, plan.Outcome{})
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "taint_eviction_controller_pod_deletion_duration_seconds" {
				continue
			}
			h := f.GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != 1 || h.GetSampleSum() != 3 {
				t.Errorf("%v", h)
			}
			for _, b := range h.GetBucket() {
				if within := b.GetUpperBound() >= 3; (b.GetCumulativeCount() == 1) != within {
					t.Errorf("up to %v: %d", b.GetUpperBound(), b.GetCumulativeCount())
				}
			}
			return
		}
		t.Error("there is no such metric")
	})
}
