package pvprotection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPlan plans for a volume with nothing to do, and for one of which the finalizer is taken off. Neither depends on how many
// volumes there are.
func BenchmarkPlan(b *testing.B) {
	for name, v := range map[string]*corev1.PersistentVolume{"at rest": volume(with(finalizer)),
		"released": volume(leaving, with(finalizer))} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p := planFinalizer(epoch, snapshot{Volume: v}); p.Empty() != (v.DeletionTimestamp == nil) {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
