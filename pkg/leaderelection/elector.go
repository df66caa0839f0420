package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Leadership is the right to work: by a lease ([Elector]) or by decree ([Always]).
type Leadership interface {
	// Run calls lead as soon as the right is there, with a context that ends when the work has to.
	Run(ctx context.Context, lead func(ctx context.Context) error) error
	// Held reports whether the right is there at this moment. It is cheap: ask before each write.
	Held() bool
	// Check returns an error when this process is stalled and had better be restarted (LE-18).
	Check() error
}

// Elector competes for a lease and leads while it has it.
type Elector struct {
	config Config
	// identity is by which the lease names this process as its holder.
	identity string
	leases   coordinationv1.LeasesGetter
	watched  coordinationv1.LeasesGetter // nil: the lease is only tried periodically
	// events say who leads. Nil: there are none.
	events resourcelock.EventRecorder
	// clock has the time by both clocks of the machine.
	clock func() instant
	// current is the present term; nil while there is none.
	current atomic.Pointer[term]

	rolledBack func(error)             // see OnRollback; nil if there is no handler
	annotate   func(map[string]string) // see Annotate; nil if there is nothing to say
	mu         sync.Mutex
	version    string            // the latest of the lease that was seen
	metadata   metav1.ObjectMeta // of the lease that was seen last, without managed fields

	expired []byte // the record of another holder that was seen to expire, see [term.Get]; only Run touches it
	other   lastHolder
}

var _ Leadership = (*Elector)(nil)

// New returns an elector. The client should be one of its own that nothing holds up (LE-5). Events (LE-21) may be nil.
func New(
	config Config, identity string, leases coordinationv1.LeasesGetter, events resourcelock.EventRecorder,
) (*Elector, error) {
	if errs := config.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if identity == "" {
		return nil, errors.New("leader election needs an identity")
	}
	return &Elector{config: config, identity: identity, leases: leases, events: events, clock: realClock()}, nil
}

// Held reports whether the lease is ours, by the local clock: for renew deadline + retry period after the start of
// the last request that renewed it (LE-14), and no longer than others wait before they take it (LE-8). Time is what
// the monotonic or the wall clock says has passed, whichever is more, so that a machine that was suspended notices
// before it writes. It is false before the lease was acquired, and from the moment on at which its release begins or
// it is lost.
func (e *Elector) Held() bool {
	t := e.current.Load()
	return t != nil && t.held()
}

// Check returns an error when this process works as the leader although it has not renewed the lease for the lease
// duration and another 20s (LE-18). That it still works is a sign that it is stalled: it was asked to stop long before.
func (e *Elector) Check() error {
	t := e.current.Load()
	if t == nil || !t.working.Load() {
		return nil
	}
	if since := e.clock().mono - t.last.Load().sent.mono; since > e.config.LeaseDuration+20*time.Second {
		return fmt.Errorf("failed election to renew leadership on lease %s", e.config.Name)
	}
	return nil
}

// Run competes for the lease, for as long as it takes, and calls lead when it is ours. The context of lead ends with
// ctx, and when the lease is lost, then with [ErrLost] as its cause.
//
// When lead returns, by itself or because ctx has ended, the lease is released and Run returns the error of lead. Until
// then the lease is renewed, also after the end of ctx: nobody else leads while our work is still ending. If that takes
// longer than the shutdown timeout, or lead returns [ErrStuck] because work continues, Run returns ErrStuck and lets
// the lease expire.
//
// A term also ends when the wall clock has run ahead of the monotonic one by more than the lease duration: the machine
// was suspended.
//
// When the lease is lost, the context of lead ends, and lead is awaited, also for the shutdown timeout at most. Then
// Run returns [ErrLost], or with [Standby] competes again; it never calls lead while an earlier call has not returned.
//
// If ctx ends before the lease was ours, Run returns nil. Run must not be called twice at a time.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	for {
		err := e.candidacy(ctx, lead)
		if errors.Is(err, errLeaseFree) {
			continue
		}
		again := e.config.OnLoss == Standby && errors.Is(err, ErrLost) && !errors.Is(err, ErrStuck)
		if !again {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		klog.FromContext(ctx).Info("Lost the leader lease and stopped all work, competing again", "lock", e.lockName())
	}
}

// errLeaseFree says that another holder has released the lease or has let it expire. A new candidacy begins with an
// attempt, while the present one may wait for up to 4.4 s before its next.
var errLeaseFree = errors.New("nobody has the lease any more")

// candidacy is one round: acquire, lead, release or lose.
func (e *Elector) candidacy(ctx context.Context, lead func(context.Context) error) error {
	// Not the child of ctx: its end must not end the renewals, and client-go would also release the lease right then,
	// while the work is still going on. Nor does client-go release at all here: it does so after a loss too, and then
	// it takes the record it has just read for its own, even if that names another holder.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	t := newTerm(e.newLock(), e.config, e.clock, &e.other, stop)
	t.expired = e.expired
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          t,
		LeaseDuration: e.config.LeaseDuration,
		RenewDeadline: e.config.RenewDeadline,
		RetryPeriod:   e.config.RetryPeriod,
		Name:          e.config.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(t.started) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	e.current.Store(t)
	go func() {
		defer close(t.finished)
		elector.Run(electing)
	}()

	waiting, unwatch := context.WithCancel(ctx)
	defer unwatch()
	select {
	case <-t.started:
	case <-t.finished:
		t.lose("client-go gave up renewing") // before its callback was scheduled
	case e.expired = <-e.leaseFreed(waiting):
		t.end()
		t.settled() // a request that still hangs changes nothing any more but the lease, which then is ours
		return errLeaseFree
	case <-ctx.Done():
	}
	unwatch()
	if ctx.Err() == nil {
		err = e.work(ctx, t, lead)
	}
	t.end() // from here on Held is false, and no renewal is sent any more
	settled := t.settled()
	switch {
	case errors.Is(err, ErrStuck):
	case errors.Is(err, ErrLost) && !settled:
		return fmt.Errorf("%w: %w: a request about the lease hangs", err, ErrStuck)
	case errors.Is(err, ErrLost):
	default:
		e.release(ctx, t)
	}
	return err
}

// work calls lead and waits for its end, or for the loss of the lease and then its end.
func (e *Elector) work(ctx context.Context, t *term, lead func(context.Context) error) error {
	if t.isLost() {
		return ErrLost
	}
	leading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // during the shutdown too
	defer unwatch()
	go t.watch(watching)

	done := make(chan error, 1)
	t.working.Store(true)
	go func() {
		err := lead(leading)
		t.working.Store(false)
		done <- err
	}()

	select {
	case err := <-done:
		if t.isLost() && ctx.Err() == nil {
			return withStuck(ErrLost, err)
		}
		return err
	case <-t.finished:
		t.lose("client-go gave up renewing")
	case <-t.lost:
	case <-ctx.Done():
	}
	var outcome error
	if ctx.Err() == nil {
		outcome = ErrLost
		klog.FromContext(ctx).Info("Lost the leader lease, stopping all work", "lock", e.lockName(), "reason",
			t.reason())
		cancel(ErrLost)
	}
	timeout := time.NewTimer(e.config.shutdownTimeout())
	defer timeout.Stop()
	select {
	case err := <-done:
		if outcome == nil {
			return err
		}
		return withStuck(outcome, err)
	case <-timeout.C:
		stuck := fmt.Errorf("%w: still going on after %v", ErrStuck, e.config.shutdownTimeout())
		if outcome == nil {
			return stuck
		}
		return fmt.Errorf("%w: %w", outcome, stuck)
	}
}

// withStuck adds to an outcome that the work continues although lead has returned, if its error says so.
func withStuck(outcome, err error) error {
	if errors.Is(err, ErrStuck) {
		return fmt.Errorf("%w: %w", outcome, err)
	}
	return outcome
}

// release gives the lease back, if it is ours, so that the next leader need not wait for its expiry (LE-9, LE-16). It
// reads it first: after a request whose outcome is unknown it may be ours although we never led.
func (e *Elector) release(ctx context.Context, t *term) {
	if !t.asked.Load() {
		return
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "lock", e.lockName())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.requestTimeout())
	defer cancel()
	// A renewal that was cut off may still reach the server between our two requests: then they conflict. (Not by
	// retry.RetryOnConflict: it takes a request that timed out for success.)
	err := e.tryRelease(ctx)
	for range 2 {
		if apierrors.IsConflict(err) {
			err = e.tryRelease(ctx)
		}
	}
	switch {
	case err == nil:
		logger.Info("Released the leader lease")
	case !errors.Is(err, errNotOurs):
		logger.Error(err, "Could not release the leader lease, it will expire")
	}
}

var errNotOurs = errors.New("the lease is not ours")

// tryRelease reads the lease and, if it is ours, removes the holder from it (LE-16).
func (e *Elector) tryRelease(ctx context.Context) error {
	lock := e.newLock()
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != e.identity {
		return errNotOurs
	}
	if err != nil {
		return err
	}
	now := metav1.Now()
	return lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
	})
}

// newLock returns the lease as client-go competes for it.
func (e *Elector) newLock() resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.config.Namespace, Name: e.config.Name},
		Client:     leases{e},
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity, EventRecorder: e.events},
	}
}

// lockName is how messages name the lease.
func (e *Elector) lockName() string { return e.config.Namespace + "/" + e.config.Name }
