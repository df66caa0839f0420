package keystate

import (
	"reflect"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Reports of progress are debounced as their plans ask for it, see [plan.When]. The backlog of a controller is the
// number of keys that are in its queue or have a report that waits. While it is more than LongBacklog, a report waits
// until the controller has written nothing else for QuietController, but not longer than LongestDebounce. So the number
// of writes that a large piece of work takes depends on the work and not on the speed of the machine, and small work
// does not wait.
const (
	LongBacklog     = 24
	QuietController = time.Second
	LongestDebounce = 15 * time.Second
	soonest         = 200 * time.Millisecond // until a report that waits for the backlog is looked at again
	nextTurn        = time.Nanosecond        // the key is put behind those that wait
)

// debounced is a report of one key that waits for a newer one to replace it. The zero value is none.
type debounced struct {
	since   time.Time   // when the first report that it replaces was made
	quietAt time.Time   // when it is to be written if nothing changes
	timerAt time.Time   // when the queue reconciles the key by itself; a reconcile before that is due to an event
	steps   []plan.Step // what it writes
}

func (d debounced) waiting() bool { return !d.since.IsZero() }

// postpone notes that the report was made again, and returns how much longer it waits; not positive if it is to be
// written now. A reconcile before the timer that leads to another report means that something has changed, so that the
// object is not quiet.
func (d *debounced) postpone(now time.Time, steps []plan.Step, quietTime, longest time.Duration) time.Duration {
	quiet := now.Add(quietTime)
	switch {
	case !d.waiting():
		d.since, d.quietAt, d.timerAt = now, quiet, quiet
	case !now.Before(d.timerAt):
		d.timerAt = d.quietAt
	case !reflect.DeepEqual(d.steps, steps):
		d.quietAt = quiet
	}
	d.steps = steps
	if last := d.since.Add(longest); last.Before(d.quietAt) {
		d.quietAt = last
	}
	return d.quietAt.Sub(now)
}

// Debounce returns how much longer a report waits for a newer one; zero if it is to be written now. cost is that of the
// reconcile. lastWrite is when the controller last wrote anything but such reports. queued returns at most so many of
// the keys that are queued.
func (k *States[K, M, C]) Debounce(
	s *State[M, C], rep plan.Plan, now time.Time, cost time.Duration, lastWrite time.Time,
	queued func(most int) []K,
) time.Duration {
	d := s.report
	switch {
	case rep.Empty(), rep.When == plan.Now(), rep.When.NextTurn && d.waiting():
		k.setReport(s, debounced{})
		return 0
	case rep.When.NextTurn:
		d.postpone(now, rep.Steps, 0, 0)
		k.waitForTurn(s, d)
		return nextTurn
	}
	// the next reconcile is not before the cooldown is over
	wait := d.postpone(now, rep.Steps, rep.When.Quiet+cooldown(cost), rep.When.Longest)
	k.setReport(s, d)
	waited := now.Sub(d.since)
	// So many of the queued keys, and one more, are enough to know that the backlog is long, however many there are.
	if remaining := LongestDebounce - waited; now.Sub(lastWrite) <= QuietController &&
		k.backlog(queued(LongBacklog+1)) > LongBacklog {
		// ever more rarely, as a short backlog is over soon
		again := min(max(waited, soonest), QuietController, remaining)
		wait = max(wait, again) // timerAt is early by as much, so that the object counts as quiet sooner
	}
	if wait > 0 {
		return wait
	}
	k.setReport(s, debounced{})
	return 0
}
