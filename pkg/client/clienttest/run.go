package clienttest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Run runs a controller while a test works on its cluster, in a bubble of testing/synctest. The test begins when the
// controller has nothing left to do; an error that the controller returns afterwards fails t.
func Run(t *testing.T, run func(context.Context) error, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx) }()
	Settle()
	test()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Settle waits, in virtual time, for longer than any retry takes.
func Settle() {
	time.Sleep(10 * time.Minute)
	synctest.Wait()
}
