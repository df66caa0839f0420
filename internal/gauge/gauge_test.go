package gauge

import (
	"fmt"
	"testing"

	"k8s.io/component-base/metrics"
)

// A gauge has the values of the moment, and none of what is no more.
func TestOnCollect(t *testing.T) {
	now := map[string]float64{"a": 1, "b": 2}
	g := OnCollect(&metrics.GaugeOpts{Name: "things", Help: "Things."}, []string{"name"}, func(v *metrics.GaugeVec) {
		for name, value := range now {
			v.WithLabelValues(name).Set(value)
		}
	})
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(g)
	for _, want := range []string{"[a=1 b=2]", "[b=3]"} {
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%v, %v", families, err)
		}
		var got []string
		for _, m := range families[0].GetMetric() {
			got = append(got, fmt.Sprintf("%s=%v", m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		delete(now, "a")
		now["b"] = 3
	}
}
