package termtest

import (
	"context"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Begin has a term begin, until the test ends. What it enqueues is dropped.
func Begin(t testing.TB, term interface {
	Run(ctx context.Context, enqueue func(plan.Key), work func())
}) {
	begun, over, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		term.Run(context.Background(), func(plan.Key) {}, func() {
			close(begun)
			<-over
		})
	}()
	<-begun
	t.Cleanup(func() {
		close(over)
		<-done
	})
}
