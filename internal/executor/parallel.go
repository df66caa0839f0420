package executor

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
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

// each carries out sequences. Of many that begin with a creation, the rest is left to the next try when some in a row
// were refused: a pod may need thousands of claims that a quota does not allow. Each try begins elsewhere, so that
// those that can never be made keep no others back.
func (w *Writing) each(all [][]plan.Step) error {
	creates := func(sequence []plan.Step) bool {
		if len(sequence) == 0 {
			return false
		}
		_, ok := sequence[0].(plan.Create)
		return ok
	}
	if len(all) <= mostRefusals || !creates(all[0]) {
		return inParallel(len(all), func(i int) error { return w.sequence(all[i]) })
	}
	first := rand.IntN(len(all))
	var refusals atomic.Int64
	return inParallel(len(all), func(i int) error {
		if refusals.Load() >= mostRefusals {
			return errManyRefusals
		}
		err := w.sequence(all[(first+i)%len(all)])
		switch {
		case err == nil:
			refusals.Store(0)
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			refusals.Add(1)
		}
		return err
	})
}

// errManyRefusals says why a creation was not tried.
var errManyRefusals = errors.New("left to the next try, as many creations before it were refused")

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
