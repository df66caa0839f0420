package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// NewProgram returns the program that runs the controllers of the registry.
func NewProgram(name string, registry []manager.Controller) Program {
	p := Program{Name: name, Registry: registry}
	p.Start = func(ctx context.Context, c options.Config) error {
		return start(ctx, c, registry)
	}
	return p
}

// start serves and runs the controllers until ctx ends. Whatever can be wrong with what is configured is found out
// before anything is served or run.
func start(ctx context.Context, c options.Config, registry []manager.Controller) error {
	began := time.Now()
	c.Metrics.Apply()
	profileContention(c.Serving)
	measured := metrics.New(kubernetesVersion())
	server, err := newServer(ctx, c)
	if err != nil {
		return err
	}
	c.Manager.Hooks, c.Manager.RegisterMetrics = measured.Hooks, measured.Register
	recorder := keepHistory(&c, measured)
	compared, err := compare(&c, measured)
	if err != nil {
		return err
	}
	c.Manager.Logger = klog.FromContext(ctx)
	m, err := manager.New(c.Client, c.Manager)
	if err != nil {
		if server != nil {
			err = errors.Join(err, server.Close())
		}
		return err
	}
	defer measured.Follow(m)()
	besides, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { logServerVersion(besides, c.Client) })
	if compared != nil {
		beside.Go(func() { compared.Run(besides) })
	}
	defer beside.Wait()
	defer stop()
	work := m.Run
	if recorder != nil {
		work = func(ctx context.Context) error { return recordWhile(ctx, recorder, m.Run) }
	}
	if server == nil {
		return work(ctx)
	}
	pages := handlers(c, registry, m, began)
	if compared != nil {
		pages[agreementPath] = compared
	}
	addHistory(pages, recorder)
	return serveWhile(ctx, server, pages, work)
}
