package selinuxwarning

import (
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
)

// newConflictMetric makes the metric of the conflicts that there are (ST-65). They are set when they are scraped.
func newConflictMetric(k *caches) metrics.Registerable {
	return gauge.OnCollect(&metrics.GaugeOpts{
		Subsystem: "selinux_warning_controller", Name: "selinux_volume_conflict", StabilityLevel: metrics.ALPHA,
		Help: "Pods that cannot have a volume on the same node, as their SELinux labels or policies differ.",
	}, []string{
		"property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value",
	}, func(v *metrics.GaugeVec) {
		known, _ := k.conflicts.Get()
		for _, all := range known.ByVolume.All() {
			for _, c := range all {
				v.WithLabelValues(c.Property, c.Pod.Namespace, c.Pod.Name, c.Pod.Value, c.Other.Namespace, c.Other.Name,
					c.Other.Value).Set(1)
			}
		}
	})
}
