package executor

import (
	"sync"
	"sync/atomic"
)

// inParallel calls f with 0..n-1, a bounded number at a time, and returns the first error in the order of the numbers.
func inParallel(n int, f func(int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	panics := make([]any, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, parallelWrites) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				func() {
					defer func() { panics[i] = recover() }()
					errs[i] = f(i)
				}()
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if panics[i] != nil {
			panic(panics[i]) // it ends at the key
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// once returns a function that calls f the first time and returns what that returned. Unlike with sync.OnceValue, who
// has to wait for the first call waits on a channel: f makes a request, and in virtual time (testing/synctest) a
// goroutine that waits for a mutex keeps the clock from moving on.
func once(f func() error) func() error {
	turn := make(chan struct{}, 1)
	var called bool
	var err error
	return func() error {
		turn <- struct{}{}
		defer func() { <-turn }()
		if !called {
			err, called = f(), true
		}
		return err
	}
}
