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

func TestReportWhen(t *testing.T) {
	wrote, failed := Outcome{Results: []Result{{Verb: Created}}}, Outcome{Results: []Result{{Verb: Created}}, Err: ErrStale}
	later := Progress(20)
	for _, c := range []struct {
		name         string
		did          Outcome
		news, moving bool
		want         When
	}{
		{"progress", Outcome{}, false, true, later},
		{"news", Outcome{}, true, true, Now()},
		{"it comes to rest", Outcome{}, false, false, Now()},
		{"news of a plan that was carried out", wrote, true, false, later},
		{"news of a plan that has failed", failed, true, true, Now()},
		{"progress of a plan that has failed", failed, false, true, later},
	} {
		if got := c.did.ReportWhen(c.news, c.moving, later); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
