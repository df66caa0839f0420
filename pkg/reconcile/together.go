package reconcile

import (
	"context"
	"errors"
	"sync"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
)

// Part is one of the runners of a controller with several queues; a [Runner] is one.
type Part interface {
	Run(ctx context.Context) error
	Statuses() []Status
	Records() []*explain.Records
}

// Together returns the runners of a controller with several queues as one. Each has a name, a status and records for
// /debug/explain of its own; the names of their queues in metrics may be the same.
func Together(parts ...Part) Part { return together(parts) }

type together []Part

// Run runs all parts until ctx ends. When one fails, the others are stopped, and all errors are returned.
func (t together) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(t))
	var all sync.WaitGroup
	for i, part := range t {
		all.Go(func() {
			if errs[i] = part.Run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Records returns those of the parts, in their order.
func (t together) Records() (all []*explain.Records) {
	for _, part := range t {
		all = append(all, part.Records()...)
	}
	return all
}

// Statuses returns how the parts do, in their order.
func (t together) Statuses() (all []Status) {
	for _, part := range t {
		all = append(all, part.Statuses()...)
	}
	return all
}
