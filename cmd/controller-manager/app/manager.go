package app

import (
	"context"
	"errors"
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
	run := m.Run
	if compared != nil {
		run = func(ctx context.Context) error {
			go compared.Run(ctx)
			return m.Run(ctx)
		}
	}
	if server == nil {
		return run(ctx)
	}
	pages := handlers(c, registry, m, began)
	if compared != nil {
		pages[agreementPath] = compared
	}
	return serveWhile(ctx, server, pages, run)
}
