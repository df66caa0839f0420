package plantest

import (
	"testing"
	"time"
)

// The parts of a time are where this release of Go has them.
func TestJumped(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		before := time.Now()
		after := Jumped(before.Add(time.Minute), by)
		if mono, wall := after.Sub(before), after.Round(0).Sub(before.Round(0)); mono != time.Minute || wall != time.Minute+by {
			t.Errorf("%v: %v by the monotonic clock, %v by the wall clock", by, mono, wall)
		}
	}
}

func TestMonotonic(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 5, time.UTC)
	a, b := Monotonic(at, time.Hour), Monotonic(at.Add(-time.Minute), 2*time.Hour)
	if !a.Round(0).Equal(at) || b.Sub(a) != time.Hour || b.Round(0).Sub(a.Round(0)) != -time.Minute {
		t.Errorf("%v, %v", a, b)
	}
}
