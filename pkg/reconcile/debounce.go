package reconcile

import (
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Reports of progress are debounced as their plans ask for it, see docs/decisions/0003. Beyond a rate of earlyRate a second a
// controller's reports wait for their MaxWait. While it is busy, they wait until it has written nothing else for
// quietController, though not longer than longestDebounce. It is busy when it has a backlog of more than longBacklog (keys in
// its queue, and objects that go on changing), or more than manyReports that wait. So the number of writes that a large piece
// of work takes depends on the work and not on the speed of the machine, and small work does not wait.
const (
	earlyRate       = 15
	earlyBurst      = 20
	manyReports     = 22
	longBacklog     = 18
	quietController = time.Second
	firstCheck      = 100 * time.Millisecond // until it is checked whether the controller is still busy
	longestDebounce = 15 * time.Second
)

// debounced is a report of one key that waits for a newer one to replace it. The zero value is none.
type debounced struct {
	since time.Time // when the first report that it replaces was due
	until time.Time // when it is to be written if nothing changes
	timer time.Time // the next reconcile that comes without a change
	due   time.Time // since when it has waited for its own time, and is not written because the controller is busy
}

func (d debounced) waiting() bool { return !d.since.IsZero() }

// changing reports whether the report waits because its object goes on changing.
func (d debounced) changing() bool { return d.waiting() && d.due.IsZero() }

// wait returns how much longer the report waits; not positive if it is to be written now. A reconcile that comes before the
// timer means that something has changed, so that the object is not quiet.
func (d *debounced) wait(now time.Time, quietTime, longest time.Duration) time.Duration {
	quiet := now.Add(quietTime)
	switch {
	case !d.waiting():
		d.since, d.until, d.timer = now, quiet, quiet
	case now.Before(d.timer):
		d.until = quiet
	default:
		d.timer = d.until
	}
	if last := d.since.Add(longest); last.Before(d.until) {
		d.until = last
	}
	return d.until.Sub(now)
}

// debounce returns how much longer a report waits for a newer one; zero if it is to be written now.
func (r *Runner[S, M]) debounce(s *keyState[M], rep plan.Plan, now time.Time, cost time.Duration) time.Duration {
	if rep.Empty() || rep.Debounce <= 0 {
		r.keys.setReport(s, debounced{})
		return 0
	}
	d := s.report
	wait := d.wait(now, rep.Debounce+cooldown(cost), rep.MaxWait) // the next reconcile is not before the cooldown is over
	if last := d.since.Add(rep.MaxWait); wait <= 0 && now.Before(last) && !r.early.AllowN(now, 1) {
		d.until, wait = last, last.Sub(now)
	}
	switch {
	case wait > 0:
		d.due = time.Time{}
	case d.due.IsZero():
		d.due = now
	}
	waiting, changing := r.keys.setReport(s, d)
	busy := r.queue.Len()+changing > longBacklog || waiting > manyReports
	if rest := d.since.Add(longestDebounce).Sub(now); busy && now.Sub(r.executor.LastWrite()) <= quietController {
		again := min(max(now.Sub(d.due), firstCheck), quietController) // ever more rarely while that lasts
		wait = max(wait, min(rest, again))
	}
	if wait > 0 {
		return wait
	}
	r.keys.setReport(s, debounced{})
	return 0
}
