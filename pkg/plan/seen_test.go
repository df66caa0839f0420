package plan_test

import (
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What is left until a time in an object does not change when the wall clock jumps.
func TestSeenAt(t *testing.T) {
	seen := time.Now()
	end := plan.SeenAt(seen.Round(0).Add(time.Minute), seen)
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		if left := end.Sub(plantest.Jumped(seen.Add(20*time.Second), by)); left != 40*time.Second {
			t.Errorf("after a jump by %v, %v are left", by, left)
		}
	}
	if !end.Round(0).Equal(seen.Round(0).Add(time.Minute)) {
		t.Errorf("%v is another time", end)
	}
}
