package engine

import (
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Reports of progress are debounced, see docs/decisions/0003, as their plans ask for it. Beyond a rate of earlyRate a second
// a controller's reports wait for their MaxWait. While it has a backlog of more than longBacklog, keys in its queue and
// reports that wait, they wait until it has written nothing else for quietController, though not longer than
// longestDebounce. So the number of writes that a large piece of work takes depends on the work and not on the speed of the
// machine, and small work does not wait.
const (
	earlyRate       = 10
	earlyBurst      = 20
	longBacklog     = 10
	quietController = time.Second
	longestDebounce = 15 * time.Second
)

// debounced is a report of one key that waits for a newer one to replace it. The zero value is none.
type debounced struct {
	since time.Time // when the first report that it replaces was made
	until time.Time // when it is to be written if nothing changes
	timer time.Time // the next pass that comes without a change
}

func (d debounced) waits() bool { return !d.since.IsZero() }

// wait returns how much longer the report waits; not positive if it is to be written now. A pass that comes before the timer
// means that something has changed, so the object is not quiet.
func (d *debounced) wait(now time.Time, quietTime, longest time.Duration) time.Duration {
	quiet := now.Add(quietTime)
	switch {
	case !d.waits():
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

// lastWrite is when a controller last wrote something that was no debounced report.
type lastWrite struct {
	mu sync.Mutex
	at time.Time
}

func (l *lastWrite) set(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = now
}

// before reports whether the last write was before a time.
func (l *lastWrite) before(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at.Before(t)
}

// debounce returns how much longer a report waits for a newer one; zero if it is to be written now.
func (r *Runner[S]) debounce(st *state, rep plan.Plan, now time.Time) time.Duration {
	if rep.Empty() || rep.Debounce <= 0 {
		r.setReport(st, debounced{})
		return 0
	}
	d := st.report
	wait := d.wait(now, rep.Debounce+cooldown(st.thought), rep.MaxWait) // the next pass is not before the cooldown is over
	if last := d.since.Add(rep.MaxWait); wait <= 0 && now.Before(last) && !r.executor.early.AllowN(now, 1) {
		d.until, wait = last, last.Sub(now)
	}
	backlog := r.levels.Len() + r.setReport(st, d)
	if rest := d.since.Add(longestDebounce).Sub(now); backlog > longBacklog && !r.executor.wrote.before(now.Add(-quietController)) {
		wait = max(wait, min(rest, quietController))
	}
	if wait > 0 {
		return wait
	}
	r.setReport(st, debounced{})
	return 0
}
