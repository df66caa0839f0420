package app

import (
	"context"
	"errors"
	"time"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/pkg/clients"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/metrics"
)

// NewProgram returns the program that runs the controllers of the registry.
func NewProgram(name string, registry []manager.Controller) Program {
	p := Program{Name: name}
	for _, c := range registry {
		p.Controllers = append(p.Controllers, c.Name)
	}
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
	config.ReplicaSet.DeletionAgeRatio = measured.DeletionAgeRatio
	m, err := manager.New(ctx, config, registry)
	if err != nil {
		if server != nil {
			err = errors.Join(err, server.Close())
		}
		return err
	}
	defer measured.Follow(m)()
	if server == nil {
		return m.Run(ctx)
	}
	return serveWhile(ctx, server, handlers(c, m, began), m.Run)
}

// managerConfig hands over what the flags said.
func managerConfig(c options.Config) manager.Config {
	m := manager.Config{
		Client: c.Client,
		Clients: clients.Options{
			Component:       c.Component,
			ContentType:     c.ContentType,
			RateLimited:     c.RateLimited,
			QPS:             c.QPS,
			Burst:           c.Burst,
			ServiceAccounts: c.UseServiceAccountCredentials,
		},
		Controllers:         map[string]bool{},
		Lacking:             c.Controllers.Lacking,
		MinResyncPeriod:     c.MinResyncPeriod,
		StartInterval:       c.ControllerStartInterval,
		ShutdownTimeout:     c.ControllerShutdownTimeout,
		LeaderElect:         c.LeaderElect,
		LeaderElection:      c.LeaderElection,
		TerminatingReplicas: c.Features.Enabled("DeploymentReplicaSetTerminatingReplicas"),
		Deployment:          manager.DeploymentConfig{Workers: int(c.Deployment.Workers)},
		ReplicaSet: manager.ReplicaSetConfig{
			Workers:           int(c.ReplicaSet.Workers),
			PodFailureBackOff: c.ReplicaSet.PodFailureBackOff,
			PodDeletionCost:   c.Features.Enabled("PodDeletionCost"),
		},
		Endpoint: manager.EndpointConfig{
			Workers:     int(c.Endpoints.Workers),
			BatchPeriod: c.Endpoints.BatchPeriod,
			CleanUp:     c.Endpoints.CleanUp,
		},
		PodGC: manager.PodGCConfig{
			TerminatedThreshold:             int(c.PodGC.TerminatedPodThreshold),
			TerminatedThresholdPerNamespace: int(c.PodGC.TerminatedPodThresholdPerNamespace),
			TerminatedMaxAge:                c.PodGC.TerminatedPodMaxAge,
			OrphanBrake:                     c.PodGC.OrphanBrake,
		},
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
