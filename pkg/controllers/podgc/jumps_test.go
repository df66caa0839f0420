package podgc

import (
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// A wall clock that jumps neither ends nor prolongs the grace period of a node that is gone, and no loss is forgotten for it.
func TestWallClockJumps(t *testing.T) {
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		began := time.Now()
		var m memory
		m.count(began, []string{"a", "b"}, []string{"a", "b"})
		m.count(began.Add(time.Second), []string{"b"}, []string{"a", "b"})
		if c := m.count(plantest.Jumped(began.Add(31*time.Second), by), []string{"b"}, []string{"a", "b"}); len(c.Due) > 0 ||
			c.Next != 10*time.Second || c.Vanished != 1 {
			t.Errorf("a jump by %v: %+v", by, c)
		}
		if c := m.count(plantest.Jumped(began.Add(42*time.Second), by), []string{"b"}, []string{"a", "b"}); len(c.Due) != 1 ||
			c.Vanished != 1 {
			t.Errorf("a jump by %v: %+v", by, c)
		}
	}
}
