package keystate

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// quietTime is after how long without a change the reports are written.
const quietTime = 100 * time.Millisecond

// written asks for a report at each of the times, another one or the same one each time, and returns when it was written.
func written(d *debounced, same bool, longest, cooldown time.Duration, at []time.Duration) time.Duration {
	start := time.Unix(1000, 0)
	report := func(replicas int32) []plan.Step {
		return []plan.Step{plan.Change{New: &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: replicas}}}}
	}
	for n := int32(0); len(at) > 0; n++ {
		now := at[0]
		steps := report(n)
		if same {
			steps = report(0)
		}
		wait := d.postpone(start.Add(now), steps, quietTime+cooldown, longest)
		if wait <= 0 {
			return now
		}
		if at = at[1:]; len(at) == 0 || !start.Add(at[0]).Before(d.timerAt) { // the queue keeps the earliest time
			at = append([]time.Duration{d.timerAt.Sub(start)}, at...)
		}
	}
	return 0
}

func TestWhenAReportIsWritten(t *testing.T) {
	every := func(d, end time.Duration) (at []time.Duration) {
		for now := time.Duration(0); now <= end; now += d {
			at = append(at, now)
		}
		return at
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		name              string
		changes           []time.Duration
		same              bool
		longest, cooldown time.Duration
		want              time.Duration
	}{
		{"nothing more changes", []time.Duration{0}, false, time.Second, 0, 100 * ms},
		{"something more changes; the timer of the first reconcile is no change", []time.Duration{0, 60 * ms}, false, time.Second, 0,
			160 * ms},
		{"what changes does not change the report", []time.Duration{0, 60 * ms}, true, time.Second, 0, 100 * ms},
		{"it goes on changing", every(30*ms, 2*time.Second), false, time.Second, 0, time.Second},
		{"it is awaited", every(30*ms, 2*time.Second), false, 100 * ms, 0, 100 * ms},
		{"a cooldown is no quiet time", []time.Duration{0, 90 * ms}, false, time.Second, 50 * ms, 240 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := written(&debounced{}, c.same, c.longest, c.cooldown, c.changes)
			if got < c.want || got > c.want+30*ms {
				t.Errorf("written after %v, want %v", got, c.want)
			}
		})
	}
}
