package apis

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// While runs something in each time in which nothing that it needs, which is followed, is missing. Run ends when its
// context does, which is when something is missing; off is called when it is not run, before While waits. A line is
// logged when it is switched off, and when it is switched on again. While returns when ctx ends, or when run does by
// itself, with its error. If no question about the needs has ended yet, it waits for that first.
func (a *APIs) While(ctx context.Context, needs []schema.GroupVersionResource, off func(),
	run func(context.Context) error) error {
	if len(needs) == 0 {
		return run(ctx)
	}
	logger, isOff := klog.FromContext(ctx), false
	for ctx.Err() == nil {
		now := a.look(needs)
		switch {
		case now.tried && now.missing.Empty():
			if isOff {
				isOff = false
				logger.Info("Controller is switched on, the API server serves what it needs")
			}
			ended, err := a.runWhile(ctx, needs, run)
			if ended || ctx.Err() != nil {
				return err
			}
			if err != nil {
				logger.Error(err, "Controller has failed while it was switched off")
			}
			continue
		case now.tried && !isOff:
			isOff = true
			logger.Info("Controller is switched off until the API server serves what it needs", "missing",
				Name(now.missing))
			off()
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// runWhile runs something until ctx ends or something that it needs is missing. It reports whether it has ended by
// itself.
func (a *APIs) runWhile(ctx context.Context, needs []schema.GroupVersionResource,
	run func(context.Context) error) (ended bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer stop()
		for ctx.Err() == nil {
			now := a.look(needs)
			if !now.missing.Empty() {
				return
			}
			select {
			case <-now.changed:
			case <-ctx.Done():
			}
		}
	}()
	err = run(ctx)
	ended = ctx.Err() == nil
	stop()
	<-watched
	return ended, err
}

// Name is the name of a resource, as "websites.v1.example.com".
func Name(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return r.Resource + "." + r.Version
	}
	return r.Resource + "." + r.Version + "." + r.Group
}
