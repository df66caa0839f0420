package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// DEP-72c: a wall clock that jumps ends no rollout whose progress this process has seen, nor lets it go on without an end.
func TestWallClockJumps(t *testing.T) {
	seen := time.Now()
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		reported := progressing("True", updated, "")
		reported.LastUpdateTime.Time = seen.Truncate(time.Second)
		r := &rollout{snapshot: snapshot{Seen: lastSeen{Progressed: seen}, Deployment: &appsv1.Deployment{}}}
		left := func(passed time.Duration) time.Duration {
			return r.progressedAt(&reported).Add(10 * time.Minute).Sub(plantest.Jumped(seen.Add(passed), by))
		}
		if l := left(9 * time.Minute); l <= 59*time.Second || l > time.Minute {
			t.Errorf("a jump by %v: %v are left of a minute", by, l)
		}
		if l := left(11 * time.Minute); l >= 0 {
			t.Errorf("a jump by %v: %v are left", by, l)
		}
	}
}
