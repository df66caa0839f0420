package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/component-base/featuregate"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/identity"
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

// start serves and runs the controllers until ctx ends. Whatever can be wrong with what is configured is found out before
// anything is served or run.
func start(ctx context.Context, c options.Config, registry []manager.Controller) error {
	began := time.Now()
	c.Metrics.Apply()
	profileContention(c.Serving)
	measured := metrics.New(kubernetesVersion())
	server, err := newServer(ctx, c)
	if err != nil {
		return err
	}
	config := managerConfig(c)
	config.Hooks = measured.Hooks
	config.RegisterMetrics = measured.Register
	m, err := manager.New(ctx, config, registry)
	if err != nil {
		if server != nil {
			err = errors.Join(err, server.Close())
		}
		return err
	}
	if server == nil {
		return manager.Supervise(ctx, m, measured.Follow)
	}
	var current atomic.Pointer[manager.Manager]
	current.Store(m)
	return serveWhile(ctx, server, handlers(c, registry, current.Load, began), func(ctx context.Context) error {
		return manager.Supervise(ctx, m, func(m *manager.Manager) (ended func()) {
			current.Store(m)
			return measured.Follow(m)
		})
	})
}

// managerConfig hands over what the flags said.
func managerConfig(c options.Config) manager.Config {
	m := manager.Config{
		Client: c.Client,
		Clients: identity.Options{
			Component:       c.Component,
			ContentType:     c.ContentType,
			RateLimited:     c.RateLimited,
			QPS:             c.QPS,
			Burst:           c.Burst,
			ServiceAccounts: c.UseServiceAccountCredentials,
		},
		Controllers:     map[string]bool{},
		Lacking:         c.Controllers.Lacking,
		Missing:         c.Controllers.Missing,
		RootCAFile:      c.RootCAFile,
		MinResyncPeriod: c.MinResyncPeriod,
		StartInterval:   c.ControllerStartInterval,
		ShutdownTimeout: c.ControllerShutdownTimeout,
		LeaderElect:     c.LeaderElect,
		LeaderElection:  c.LeaderElection,
		Enabled:         func(gate string) bool { return c.Features.Enabled(featuregate.Feature(gate)) },
	}
	for _, name := range c.Controllers.Enabled {
		m.Controllers[name] = true
	}
	// The elector waits a little longer than the manager does, so that it is the manager who says what did not end (CLI-24).
	m.LeaderElection.ShutdownTimeout = c.ControllerShutdownTimeout + time.Second
	if c.ControllerShutdownTimeout == 0 {
		m.LeaderElection.ShutdownTimeout = 365 * 24 * time.Hour // no limit
	}
	return m
}
