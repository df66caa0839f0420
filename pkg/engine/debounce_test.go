package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// quietTime is after how long without a change the toy's reports are written.
const quietTime = 100 * time.Millisecond

// A report is written once for all that changes in quick succession, when the object is quiet.
func TestReportIsReplacedByANewerOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.debounce = time.Second
		w.start()
		for n := range int32(5) {
			w.put("a", n+1)
			time.Sleep(quietTime / 2)
		}
		if n := w.count("update ReplicaSet"); n != 4 { // those of put
			t.Fatalf("a report was not debounced: %v", w.writes())
		}
		time.Sleep(2 * quietTime)
		if n := w.count("update ReplicaSet"); n != 5 {
			t.Errorf("want one report: %v", w.writes())
		}
		got, _, _ := w.runner.Watches[0].Informer.GetStore().GetByKey("ns/a")
		if replicas := got.(*appsv1.ReplicaSet).Status.Replicas; replicas != 5 {
			t.Errorf("reported %d", replicas)
		}
	})
}

// A pass that takes long does not report what it found at its beginning: the next one knows more.
func TestLongPassDoesNotReportWhatIsOutdated(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		slow := time.Duration(0)
		w.lag = func(context.Context) error { time.Sleep(slow); return nil }
		w.debounce = time.Second
		w.start()
		w.put("a", 1)
		time.Sleep(quietTime / 2)
		slow = 5 * quietTime
		w.put("a", 2)
		time.Sleep(time.Second)
		if n := w.count("update ReplicaSet"); n != 2 { // one of put
			t.Errorf("want one report: %v", w.writes())
		}
	})
}

// passes asks a report at each of the times, and returns when it was written.
func passes(d *debounced, longest, cooldown time.Duration, at []time.Duration) (written time.Duration) {
	start := time.Unix(1000, 0)
	for len(at) > 0 {
		now := at[0]
		wait := d.wait(start.Add(now), quietTime+cooldown, longest)
		if wait <= 0 {
			return now
		}
		if at = at[1:]; len(at) == 0 || !start.Add(at[0]).Before(d.timer) { // the queue keeps the earliest time
			at = append([]time.Duration{d.timer.Sub(start)}, at...)
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
		longest, cooldown time.Duration
		want              time.Duration
	}{
		{"nothing more changes", []time.Duration{0}, time.Second, 0, 100 * ms},
		{"something more changes; the timer of the first pass is no change", []time.Duration{0, 60 * ms}, time.Second, 0, 160 * ms},
		{"it goes on changing", every(30*ms, 2*time.Second), time.Second, 0, time.Second},
		{"it is awaited", every(30*ms, 2*time.Second), 100 * ms, 0, 100 * ms},
		{"a cooldown is no quiet time", []time.Duration{0, 90 * ms}, time.Second, 50 * ms, 240 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := passes(&debounced{}, c.longest, c.cooldown, c.changes)
			if got < c.want || got > c.want+30*ms {
				t.Errorf("written after %v, want %v", got, c.want)
			}
		})
	}
}

// With a long backlog no report is written while the controller writes other things, but each after a while. When the
// controller is quiet, or the backlog is short, they are.
func TestReportsWaitForTheBacklog(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name    string
		reports int
		queued  int
		busy    time.Duration // for how long other things are written
		want    time.Duration
	}{
		{"a few reports", longBacklog, 0, time.Hour, quietTime},
		{"many reports", longBacklog + 1, 0, time.Hour, longestDebounce},
		{"few reports, many keys", 1, longBacklog, time.Hour, longestDebounce},
		{"many reports, soon quiet", longBacklog + 1, 0, 3 * time.Second, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Runner[toy]{keys: map[plan.Key]*state{}, works: works{}, executor: &executor{early: rate.NewLimiter(earlyRate, earlyBurst)}, levels: newLevels()}
			for i := range c.queued {
				r.levels.Push(plan.Key{Name: fmt.Sprint("queued-", i)})
			}
			rep := plan.Plan{Steps: []plan.Step{plan.Change{}}, Debounce: quietTime, MaxWait: time.Second}
			for i := range c.reports - 1 {
				r.debounce(r.state(plan.Key{Name: fmt.Sprint("other-", i)}), rep, start)
			}
			st := r.state(plan.Key{Name: "a"})
			for now := time.Duration(0); ; {
				if now < c.busy {
					r.executor.wrote.set(start.Add(now))
				}
				wait := r.debounce(st, rep, start.Add(now))
				if wait <= 0 {
					if now < c.want || now > c.want+quietController {
						t.Errorf("written after %v, want %v", now, c.want)
					}
					return
				}
				now += wait
			}
		})
	}
}
