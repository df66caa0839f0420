package nodelifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// A wall clock that jumps makes no node silent, nor one that is silent alive.
func TestWallClockJumps(t *testing.T) {
	began := time.Now()
	s := snapshot{Name: "n", Node: aNode(readyIs(corev1.ConditionTrue)), Memory: memory{First: began.Add(-time.Hour), Alive: began}}
	s.Limits.MonitorGracePeriod = 50 * time.Second
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		if silent, left := silence(plantest.Jumped(began.Add(40*time.Second), by), s); silent != 40*time.Second || left != 10*time.Second {
			t.Errorf("a jump by %v: silent for %v, and may be for %v", by, silent, left)
		}
	}
}
