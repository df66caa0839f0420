package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/health"
	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
)

// waitForServer waits until the API server is healthy, or ctx ends.
func (m *instance) waitForServer(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(m.builder.Config(identity.Informers))
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	health.WaitForServer(ctx, client.Discovery().RESTClient(), func(err error) { m.serverError.Store(&err) })
	return nil
}

// startInformers starts the caches that controllers asked for. They outlive ctx until close, so that controllers can
// end in good order.
func (m *instance) startInformers(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var asking sync.WaitGroup
	asking.Go(func() { m.apis.Run(ctx) })
	m.informers.StartWithContext(ctx)
	m.closers = append(m.closers, asking.Wait, cancel) // before the factory is shut down, which waits for them
	m.caches.SetStarted(m.informers)
}

// lead runs all controllers until ctx ends or one of them fails, and returns when all have ended.
func (m *instance) lead(ctx context.Context) error {
	inPlace := !m.ReadOnly && (!m.LeaderElect || m.LeaderElection.Name == leaderelection.Defaults().Name)
	if len(m.Lacking) > 0 && inPlace {
		klog.FromContext(ctx).Error(nil,
			"This process takes the place of kube-controller-manager, but lacks controllers that a cluster needs",
			"willNotWork", m.Lacking)
	}
	if m.ServiceAccounts {
		if err := m.builder.EnsureServiceAccounts(ctx, m.accounts...); err != nil {
			return fmt.Errorf("service accounts of controllers: %w", err)
		}
	}
	m.shared.Tracker.BeginTerm()
	m.apis.Ask()
	m.brakes.Begin()
	defer m.tellGone(ctx)()
	var all []runnable
	if !m.ReadOnly { // what brakes would hold is recorded with the keys
		all = append(all, runnable{Name: "brakes", Run: func(ctx context.Context, began func()) error {
			began()
			m.brakes.Run(ctx)
			return nil
		}})
	}
	for _, r := range m.runners {
		run := func(ctx context.Context, began func()) error { return m.runOne(ctx, r, began) }
		all = append(all, runnable{Name: r.Name, StartInterval: m.StartInterval, Run: run})
	}
	err := runAll(ctx, all, m.ShutdownTimeout, func(ctx context.Context) {
		if m.informers.WaitForCacheSyncWithContext(ctx); ctx.Err() == nil {
			m.led()
		}
	})
	// a controller that works on keeps the lease from others, and this process from another term
	if errors.Is(err, ErrShutdownTimeout) {
		err = fmt.Errorf("%w: %w", leaderelection.ErrStuck, err)
	}
	return err
}

// runOne runs a controller, and calls began when it runs, or will not.
func (m *instance) runOne(ctx context.Context, r *named, began func()) error {
	logger := klog.FromContext(ctx).WithValues("controller", r.Name)
	return m.apis.While(klog.NewContext(ctx, logger), r.Needs, began, func(ctx context.Context) error {
		logger.V(1).Info("Starting controller")
		defer logger.V(1).Info("Controller has ended")
		r.running.Store(m.on(r.Controller)) // what takes the place of one that is off does not count
		defer r.running.Store(false)
		began()
		return r.Run(ctx)
	})
}
