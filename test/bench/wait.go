package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// patience is how long a thing that must happen may take, on the slowest machine.
const patience = 15 * time.Minute

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// until asks every few milliseconds until done is true or fails.
func until(ctx context.Context, what string, every time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("in vain for %v", patience))
	defer cancel()
	for {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("while waiting until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		if err := sleep(ctx, every); err != nil {
			return fmt.Errorf("while waiting until %s: %w", what, err)
		}
	}
}

// forEach does the work for 0 to n-1 with so many workers. After a failure no more is begun.
func forEach(ctx context.Context, workers, n int, do func(ctx context.Context, worker, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for worker := range workers {
		wg.Go(func() {
			for i := range next {
				if err := do(ctx, worker, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// client404IsFine is for deletions.
func client404IsFine(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// collect keeps the first of several errors. The zero value is ready for use.
type collect struct {
	mu  sync.Mutex
	err error
}

func (c *collect) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !errors.Is(err, context.Canceled) {
		c.err = err
	}
}

func (c *collect) first() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
