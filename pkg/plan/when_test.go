package plan

import (
	"math"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	for pods, want := range map[int64]time.Duration{
		0: 50 * time.Millisecond, 20: 100 * time.Millisecond, 100: 500 * time.Millisecond, 200: time.Second, math.MaxInt64: time.Second,
	} {
		if w := Progress(pods); w.Quiet != want || w.Longest != time.Second {
			t.Errorf("%d pods: %v, at most %v", pods, w.Quiet, w.Longest)
		}
	}
}
