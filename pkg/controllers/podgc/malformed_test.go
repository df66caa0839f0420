package podgc

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, planning for them does not panic.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		n := &corev1.Node{}
		fill(n)
		s := snapshot{
			Rule:  rapid.SampledFrom([]string{terminated, outOfService, orphaned, unscheduled}).Draw(t, "rule"),
			Nodes: map[string]*corev1.Node{"n": n}, Gone: map[string]bool{"gone": true},
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			p.Spec.NodeName = rapid.SampledFrom([]string{"", "n", "gone", "unknown"}).Draw(t, "node")
			s.Pods = append(s.Pods, p)
		}
		if p := planPods(epoch, s); p.Requeue < 0 {
			t.Errorf("reconciles again after %v", p.Requeue)
		}
	})
}
