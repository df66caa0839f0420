package leaderelection

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // registers leader_election_master_status
)

// leads returns what leader_election_master_status says of the lease; -1 if there is no such series.
func leads(t *testing.T) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			if l := series.GetLabel(); f.GetName() == "leader_election_master_status" && l[0].GetName() == "name" &&
				l[0].GetValue() == Defaults().Name {
				return series.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// TestMetricLE23 looks at the gauge on a standby, on the leader, and after the lease was lost.
func TestMetricLE23(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		s.set(leaseOf("another", 15))
		p := start(t, s, "a", nil)
		time.Sleep(5 * time.Second)
		if got := leads(t); got != 0 {
			t.Errorf("on a standby it is %v", got)
		}
		p.untilLeading(t)
		if got := leads(t); got != 1 {
			t.Errorf("on the leader it is %v", got)
		}
		p.wire.cut(down, nil)
		_ = p.returned(t, time.Minute)
		if got := leads(t); got != 0 {
			t.Errorf("after the loss it is %v", got)
		}
		p.end()
	})
}
