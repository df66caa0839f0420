package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/health"
	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
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

// startInformers starts the caches that controllers asked for. They outlive ctx until close, so that controllers can end
// in good order.
func (m *instance) startInformers(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var asking sync.WaitGroup
	asking.Go(func() { m.apis.Run(ctx) })
	m.informers.StartWithContext(ctx)
	m.closers = append(m.closers, asking.Wait, cancel) // before the factory is shut down, which waits for them
	caches := informers.AllStarted(m.informers)
	m.caches.Store(&caches)
}

// lead runs all controllers until ctx ends or one of them fails, and returns when all have ended.
func (m *instance) lead(ctx context.Context) error {
	if len(m.Lacking) > 0 && (!m.LeaderElect || m.LeaderElection.Name == leaderelection.Defaults().Name) {
		klog.FromContext(ctx).Error(nil, "This process takes the place of kube-controller-manager, but lacks controllers that a cluster needs",
			"willNotWork", m.Lacking)
	}
	if m.ServiceAccounts {
		if err := m.builder.EnsureServiceAccounts(ctx, m.accounts...); err != nil {
			return fmt.Errorf("service accounts of controllers: %w", err)
		}
	}
	m.shared.Tracker.BeginTerm()
	m.apis.Ask()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all     sync.WaitGroup
		running sync.WaitGroup // controllers that have not begun
		once    sync.Once
		first   error
	)
	running.Add(len(m.runners))
	for _, r := range m.runners {
		all.Go(func() {
			err := m.runOne(ctx, r, sync.OnceFunc(running.Done))
			if err != nil {
				once.Do(func() { first = fmt.Errorf("controller %s: %w", r.Name, err) })
				cancel()
			}
		})
	}
	all.Go(func() { m.brakes.Run(ctx) })
	all.Go(func() {
		running.Wait()
		if m.informers.WaitForCacheSyncWithContext(ctx); ctx.Err() == nil {
			m.led()
		}
	})
	<-ctx.Done()
	if !m.waitFor(&all) {
		return ErrShutdownTimeout
	}
	return first
}

// runOne runs a controller, and calls began when it runs, or will not.
func (m *instance) runOne(ctx context.Context, r *named, began func()) error {
	defer began()
	if m.StartInterval > 0 {
		select {
		case <-time.After(m.StartInterval + time.Duration(rand.Int64N(int64(m.StartInterval)))):
		case <-ctx.Done():
			return nil
		}
	}
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

// waitFor waits for the controllers to end; it returns false when they take longer than they may.
func (m *instance) waitFor(all *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	var timeout <-chan time.Time // nil never fires
	if m.ShutdownTimeout >= 0 {
		timeout = time.After(m.ShutdownTimeout)
	}
	select {
	case <-done:
		return true
	case <-timeout:
		return false
	}
}
