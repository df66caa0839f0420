package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/clients"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
)

// serverPatience is how long an API server may take to become healthy before the process gives up (CLI-58).
const serverPatience = 10 * time.Second

// waitForServer waits until the API server says that it is healthy, or answers that it does not tell us.
func (m *Manager) waitForServer(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(m.builder.Config(clients.Informers))
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	var last error // what the server, or the way to it, said last
	for {
		status := 0
		err := client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).StatusCode(&status).Error()
		switch {
		case err == nil, status == http.StatusNotFound, status == http.StatusForbidden:
			return nil
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("failed to wait for apiserver being healthy: %w", err)
		case last == nil || ctx.Err() == nil:
			last = err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return fmt.Errorf("failed to wait for apiserver being healthy: %w", last)
		}
	}
}

// startInformers starts the caches that controllers asked for. They outlive ctx until close, so that controllers can end
// in good order.
func (m *Manager) startInformers(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.informers.StartWithContext(ctx)
	m.closers = append(m.closers, cancel) // before the factory is shut down, which waits for them
	caches := informers.AllStarted(m.informers)
	m.caches.Store(&caches)
}

// lead runs all controllers until ctx ends or one of them fails, and returns when all have ended.
func (m *Manager) lead(ctx context.Context) error {
	if len(m.Lacking) > 0 && (!m.LeaderElect || m.LeaderElection.Name == leaderelection.Defaults().Name) {
		klog.FromContext(ctx).Error(nil, "This process takes the place of kube-controller-manager, but lacks controllers that a cluster needs",
			"willNotWork", m.Lacking)
	}
	if m.Clients.ServiceAccounts {
		if err := m.builder.EnsureServiceAccounts(ctx, m.accounts...); err != nil {
			return fmt.Errorf("service accounts of controllers: %w", err) // CLI-58
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all   sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, r := range m.runners {
		all.Go(func() {
			err := m.runOne(ctx, r)
			if err != nil {
				once.Do(func() { first = fmt.Errorf("controller %s: %w", r.Name, err) })
				cancel()
			}
		})
	}
	<-ctx.Done()
	if !m.waitFor(&all) {
		return ErrShutdownTimeout
	}
	return first
}

func (m *Manager) runOne(ctx context.Context, r *named) error {
	if m.StartInterval > 0 {
		select {
		case <-time.After(m.StartInterval + time.Duration(rand.Int64N(int64(m.StartInterval)))): // CLI-23
		case <-ctx.Done():
			return nil
		}
	}
	logger := klog.FromContext(ctx).WithValues("controller", r.Name)
	logger.V(1).Info("Starting controller")
	defer logger.V(1).Info("Controller has ended")
	r.running.Store(m.Controllers[r.Name]) // what takes the place of one that is off does not count
	defer r.running.Store(false)
	return r.Run(klog.NewContext(ctx, logger))
}

// waitFor waits for the controllers to end; it returns false when they take longer than they may.
func (m *Manager) waitFor(all *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	if m.ShutdownTimeout <= 0 {
		<-done
		return true
	}
	select {
	case <-done:
		return true
	case <-time.After(m.ShutdownTimeout):
		return false
	}
}
