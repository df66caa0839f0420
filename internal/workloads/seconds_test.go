package workloads

import (
	"math"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for n, want := range map[int64]time.Duration{0: 0, 30: 30 * time.Second, -30: -30 * time.Second,
		math.MaxInt32: math.MaxInt32 * time.Second, 9_300_000_000: century, math.MaxInt64: century, math.MinInt64: -century} {
		if got := Seconds(n); got != want || got+time.Hour < got {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
	if got := Seconds(int32(math.MinInt32)); got != math.MinInt32*time.Second {
		t.Error(got)
	}
}
