package app

import (
	"context"
	"net/http"
	"time"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/explainhttp"
	"github.com/standalone-kcm/controller-manager/internal/history"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// keepHistory has a manager tell a recorder what controllers do and what is gone; nil if no history is kept.
func keepHistory(c *options.Config, measured *metrics.Metrics) *history.Recorder {
	if c.History.Dir == "" {
		return nil
	}
	r := history.New(history.Options{Dir: c.History.Dir, Most: c.History.Size.Value(), Observer: c.Manager.ReadOnly,
		Count: measured.History})
	others := c.Manager.Hooks
	c.Manager.Hooks = func(controller string) reconcile.Hooks {
		hooks := others(controller).AlsoDecided(r.Decided(controller))
		hooks.Applying = r.Applying(controller)
		return hooks
	}
	c.Manager.Gone = r.Gone
	return r
}

// recordWhile writes the history while work is done, and what is left of it afterwards.
func recordWhile(ctx context.Context, r *history.Recorder, work func(context.Context) error) error {
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(writing)
	}()
	defer func() {
		end()
		select {
		case <-ended:
		case <-time.After(lastWrites): // the disk hangs
		}
	}()
	return work(ctx)
}

// lastWrites is how long the process waits at its end until the history is written.
const lastWrites = 2 * time.Second

// addHistory has the server tell what is known of objects that are gone.
func addHistory(all map[string]http.Handler, r *history.Recorder) {
	about := explainhttp.History(nil)
	if r != nil {
		about = explainhttp.History(r.About)
	}
	all["/debug/history"], all["/debug/history/"] = about, about
}
