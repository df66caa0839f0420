package reconcile

import (
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Reports of progress are debounced as their plans ask for it, see docs/decisions/0003. While a controller has a backlog of more
// than longBacklog, keys in its queue and reports that wait, its reports wait until it has written nothing else for
// quietController, though not longer than longestDebounce. So the number of writes that a large piece of work takes depends on
// the work and not on the speed of the machine, and small work does not wait.
const (
	longBacklog     = 30
	quietController = time.Second
	longestDebounce = 15 * time.Second
)

// debounced is a report of one key that waits for a newer one to replace it. The zero value is none.
type debounced struct {
	since     time.Time // when the first report that it replaces was made
	quietAt   time.Time // when it is to be written if nothing changes
	nextTimer time.Time // the next reconcile that comes without a change
}

func (d debounced) waiting() bool { return !d.since.IsZero() }

// wait returns how much longer the report waits; not positive if it is to be written now. A reconcile that comes before the
// timer means that something has changed, so that the object is not quiet.
func (d *debounced) wait(now time.Time, quietTime, longest time.Duration) time.Duration {
	quiet := now.Add(quietTime)
	switch {
	case !d.waiting():
		d.since, d.quietAt, d.nextTimer = now, quiet, quiet
	case now.Before(d.nextTimer):
		d.quietAt = quiet
	default:
		d.nextTimer = d.quietAt
	}
	if last := d.since.Add(longest); last.Before(d.quietAt) {
		d.quietAt = last
	}
	return d.quietAt.Sub(now)
}

// debounce returns how much longer a report waits for a newer one; zero if it is to be written now.
func (r *Runner[S, M]) debounce(s *keyState[M], rep plan.Plan, now time.Time, cost time.Duration) time.Duration {
	if rep.Empty() || rep.Debounce <= 0 {
		r.keys.setReport(s, debounced{})
		return 0
	}
	d := s.report
	wait := d.wait(now, rep.Debounce+cooldown(cost), rep.MaxWait) // the next reconcile is not before the cooldown is over
	backlog := r.queue.Len() + r.keys.setReport(s, d)
	if rest := d.since.Add(longestDebounce).Sub(now); backlog > longBacklog && now.Sub(r.executor.LastWrite()) <= quietController {
		wait = max(wait, min(rest, quietController))
	}
	if wait > 0 {
		return wait
	}
	r.keys.setReport(s, debounced{})
	return 0
}
