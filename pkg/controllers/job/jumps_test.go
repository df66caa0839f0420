package job

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// JOB-55: a wall clock that jumps does not end a Job that this process has seen begin, nor lets it work on.
func TestWallClockJumps(t *testing.T) {
	began := time.Now()
	j := sum(1, deadline(600))
	j.Status.StartTime = ptr.To(metav1.NewTime(began.Truncate(time.Second)))
	m := newView(began, snapshot{Job: j}).Remembered
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		at := func(d time.Duration) view {
			return newView(plantest.Jumped(began.Add(d), by), snapshot{Job: j, Memory: m})
		}
		if e := endOf(plantest.Jumped(began.Add(590*time.Second), by), at(590*time.Second)); e.decided() {
			t.Errorf("a jump by %v: %+v before its time", by, e)
		}
		if e := endOf(plantest.Jumped(began.Add(601*time.Second), by), at(601*time.Second)); !e.failing() {
			t.Errorf("a jump by %v: it works on", by)
		}
		m = at(time.Minute).Remembered // what was seen first counts
	}
	resumed := began.Add(time.Hour)
	j.Status.StartTime = ptr.To(metav1.NewTime(resumed))
	if left := untilDeadline(resumed, newView(resumed, snapshot{Job: j, Memory: m})); left != 600*time.Second {
		t.Errorf("JOB-81 begun anew: %v are left", left)
	}
}
