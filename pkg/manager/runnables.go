package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrShutdownTimeout says that controllers had not ended in time (CLI-24).
var ErrShutdownTimeout = errors.New("controller shutdown timeout reached")

// runnable is what runs until its context ends.
type runnable struct {
	Name          string
	StartInterval time.Duration // it starts after [this, twice this) (CLI-23); zero: at once
	// Run calls began, as often as it likes, when it works or knows that it cannot for now.
	Run func(ctx context.Context, began func()) error
}

// runAll runs all until ctx ends or one of them fails, and returns when all have ended, with the first error, or with
// ErrShutdownTimeout after waiting for them. A negative timeout is none. When all have begun, it calls begun, which is
// waited for likewise.
func runAll(ctx context.Context, all []runnable, timeout time.Duration, begun func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		running  sync.WaitGroup
		starting sync.WaitGroup // those that have not begun
		once     sync.Once
		first    error
	)
	starting.Add(len(all))
	for _, r := range all {
		running.Go(func() {
			if err := r.run(ctx, sync.OnceFunc(starting.Done)); err != nil {
				once.Do(func() { first = fmt.Errorf("controller %s: %w", r.Name, err) })
				cancel()
			}
		})
	}
	running.Go(func() {
		starting.Wait()
		begun(ctx)
	})
	<-ctx.Done()
	if !ended(&running, timeout) {
		return ErrShutdownTimeout
	}
	return first
}

// run runs it after its start interval. It counts as begun also when it ends before.
func (r runnable) run(ctx context.Context, began func()) error {
	defer began()
	if r.StartInterval > 0 {
		select {
		case <-time.After(r.StartInterval + rand.N(r.StartInterval)):
		case <-ctx.Done():
			return nil
		}
	}
	return r.Run(ctx, began)
}

// ended waits for all to end. It returns false when they take longer than they may.
func ended(running *sync.WaitGroup, timeout time.Duration) bool {
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	var late <-chan time.Time // nil never fires
	if timeout >= 0 {
		late = time.After(timeout)
	}
	select {
	case <-done:
		return true
	case <-late:
		return false
	}
}
