package horizontalpodautoscaler

import (
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// A wall clock that jumps forgets no recommendation of a window, and keeps none beyond it.
func TestWallClockJumps(t *testing.T) {
	began := time.Now()
	h := history{Recommendations: []recommendation{{At: began, Replicas: 9}}}
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		for passed, want := range map[time.Duration]int32{4 * time.Minute: 9, 6 * time.Minute: 2} {
			if got := h.extreme(plantest.Jumped(began.Add(passed), by), 5*time.Minute, 2, true); got != want {
				t.Errorf("a jump by %v, after %v: %d replicas, want %d", by, passed, got, want)
			}
		}
	}
}
