package leaderelection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// instant is a moment by two clocks: the monotonic one is steady but stands still while the machine is suspended, the
// wall clock continues but may be set.
type instant struct {
	mono time.Duration // since some moment
	wall time.Time
}

// realClock returns both clocks of the machine.
func realClock() func() instant {
	begin := time.Now()
	return func() instant {
		now := time.Now()
		return instant{mono: now.Sub(begin), wall: now.Round(0)}
	}
}

// asleep is how much longer the time since then was by the wall clock than by the monotonic one: the machine was
// suspended, or its clock was set forward.
func (i instant) asleep(past instant) time.Duration {
	return i.wall.Sub(past.wall) - (i.mono - past.mono)
}

// since is how much time has passed, by the clock that says more.
func (i instant) since(past instant) time.Duration {
	return max(i.mono-past.mono, i.wall.Sub(past.wall))
}

// renewal is a request that made or kept the lease ours.
type renewal struct {
	sent instant // its start
	seen instant // the earliest moment at which others can have seen the record that it wrote
}

// term is one candidacy, from the first read of the lease to its release or loss. To client-go it is the lock: so it
// sees all requests about the lease, and knows when the last one that succeeded was begun.
type term struct {
	resourcelock.Interface // the lease itself

	clock   func() instant
	config  Config
	stop    context.CancelFunc // ends client-go's loop
	expired []byte             // the record of a holder that is known not to have renewed it in time; nil if none is
	other   *lastHolder        // of the lease, as candidacies have read it

	started  chan struct{} // closed when client-go says that we lead
	finished chan struct{} // closed when client-go's loop has ended
	lost     chan struct{} // closed by lose

	asked   atomic.Bool             // a write of the lease was sent: it may be ours
	working atomic.Bool             // lead is running
	holding atomic.Pointer[renewal] // the last renewal; nil when the lease is not ours
	last    atomic.Pointer[renewal] // the same, but stays

	mu      sync.Mutex
	over    bool              // ended or lost: nothing makes the lease ours again in this term
	cause   string            // of the loss
	records map[int64]instant // by the second of the renew time: when a record with it was first sent
}

// newTerm returns a term that has not begun. The function ends the candidacy.
func newTerm(
	lock resourcelock.Interface, config Config, clock func() instant, other *lastHolder, stop context.CancelFunc,
) *term {
	return &term{
		Interface: lock, clock: clock, config: config, stop: stop, other: other,
		started: make(chan struct{}), finished: make(chan struct{}), lost: make(chan struct{}),
		records: map[int64]instant{},
	}
}

// held reports whether the lease is ours now.
func (t *term) held() bool {
	r := t.holding.Load()
	if r == nil {
		return false
	}
	now := t.clock()
	return t.left(now.since(r.sent), now.since(r.seen)) > 0
}

// left is how much longer the lease is ours, if it was renewed and seen so long ago. It is ours for as long as
// client-go tries to renew it (LE-14), and never longer than others wait before they take it (LE-8).
func (t *term) left(sent, seen time.Duration) time.Duration {
	return min(t.config.RenewDeadline+t.config.RetryPeriod-sent, t.config.written()-seen)
}

// awake ends the term if the machine seems to have slept for longer than others wait before they take the lease. That
// it is ours again after the next renewal proves little: the caches are as old as the sleep, and a watch whose
// connection has gone says nothing for up to 45 s. It returns false if the term has ended.
func (t *term) awake(now instant) bool {
	if r := t.holding.Load(); r != nil {
		if slept := now.asleep(r.sent); slept > t.config.LeaseDuration {
			t.lose(fmt.Sprintf("the machine was suspended, or its clock was set forward, by %s",
				slept.Round(time.Second)))
		}
	}
	return !t.isOver()
}

// watch declares the lease lost when it was not renewed in time, whatever hangs (LE-14). It uses the monotonic clock
// alone: when only the wall clock has jumped then held is false at once, and if it has jumped far, the term ends, see
// awake.
func (t *term) watch(ctx context.Context) {
	for {
		r := t.holding.Load()
		if r == nil {
			return
		}
		now := t.clock()
		if !t.awake(now) {
			return
		}
		left := t.left(now.mono-r.sent.mono, now.mono-r.seen.mono)
		if left <= 0 {
			t.lose("not renewed in time")
			return
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}

// lose ends the term because the lease is not ours any more. Nothing is written to the lease from here on (LE-14).
func (t *term) lose(cause string) {
	if t.close(cause) {
		close(t.lost)
	}
}

// end ends the term because the work has ended.
func (t *term) end() { t.close("") }

// close ends the term and reports whether it was still open.
func (t *term) close(cause string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over, t.cause = true, cause
	t.holding.Store(nil)
	t.stop()
	return true
}

// isOver reports whether the term has ended, for whatever reason.
func (t *term) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// isLost reports whether the lease was lost, and not given up.
func (t *term) isLost() bool {
	select {
	case <-t.lost:
		return true
	default:
		return false
	}
}

// settled waits until client-go's loop, whose context has ended, has returned, and reports whether it has: a request
// that does not heed its context (a credential plugin that hangs) must not keep the process from ending.
func (t *term) settled() bool {
	select {
	case <-t.finished:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// reason says why the term has ended.
func (t *term) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// errDeleted keeps a competitor from making the lease that somebody has deleted: its holder makes it anew (LE-15), or
// it expires.
var errDeleted = errors.New("the lease was deleted while its holder may still lead")

// errOver keeps client-go from reading and writing the lease after the term.
var errOver = errors.New("this candidacy has ended")

// Get implements resourcelock.Interface. While we lead, client-go reads the lease only after a renewal has failed.
// What it finds can mean that our term is over, even where client-go would take the lease and go on as if nothing had
// been: another has led meanwhile, and what we know of the cluster may be old (LE-15).
//
// While we compete, client-go counts the duration of a record from when it first read that record itself. A record
// that an earlier candidacy has seen expire is therefore shown to it without a holder (LE-8, decision 8). If the
// record was renewed meanwhile it is a different one, or the write conflicts.
func (t *term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !t.awake(t.clock()) {
		return nil, nil, errOver
	}
	record, raw, err := t.Interface.Get(ctx)
	if t.holding.Load() == nil { // not ours so far: a competitor
		switch {
		case err == nil && t.expired != nil && bytes.Equal(rawOf(record), t.expired):
			record.HolderIdentity = ""
			t.other.read(nil)
		case err == nil && record.HolderIdentity != "":
			t.other.read(record)
		case err == nil:
			t.other.read(nil)
		case apierrors.IsNotFound(err) && t.other.mayLead():
			return nil, nil, errDeleted
		}
		return record, raw, err
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && record.HolderIdentity == "":
		if !t.held() { // while it was held, nobody else may have had it
			t.lose("the lease was given up by another holder, or deleted, after it had expired")
		}
	case err == nil && record.HolderIdentity != t.Identity():
		t.lose("held by " + record.HolderIdentity)
	}
	if t.isOver() {
		return nil, nil, errOver
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (t *term) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.write(record, func() error { return t.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (t *term) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.write(record, func() error { return t.Interface.Update(ctx, record) })
}

// write sends a renewal. The lease is ours from the moment at which it was sent, not from the moment at which the
// answer came: others count from when they see it, which may be before our answer arrives.
func (t *term) write(record resourcelock.LeaderElectionRecord, send func() error) error {
	now := t.clock()
	if !t.awake(now) {
		return errOver
	}
	r := &renewal{sent: now, seen: t.seen(record.RenewTime.Unix(), now)}
	t.asked.Store(true)
	if err := send(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return errOver
	}
	t.holding.Store(r)
	t.last.Store(r)
	return nil
}

// seen returns the earliest moment at which others can have seen a record with that renew time, which is being sent
// now.
//
// They start to count when they see the record change (LE-8), and compare it by the second. A renewal whose answer
// was lost, though it was carried out, is repeated by client-go with the renew time of the first: the repetition
// succeeds, but to others nothing has changed. To count from it would let us believe in the lease for the time of a
// request, 5s, longer than they do.
func (t *term) seen(second int64, now instant) instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, again := t.records[second]
	if !again {
		first = now
		t.records[second] = now
	}
	for s, at := range t.records {
		if s != second && now.mono-at.mono > t.config.LeaseDuration {
			delete(t.records, s) // it could come again only if the clock was set back, and others have forgotten it
		}
	}
	return first
}
