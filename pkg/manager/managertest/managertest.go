package managertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Cache is a cache of a kind, of all its objects, or of those that the selector of fields matches. The server fills
// it with all of them.
type Cache struct {
	Example  plan.Object
	Selector fields.Selector // nil for all
}

// Context returns what a controller is built from that works on the server. It has these caches.
func Context(t *testing.T, server *clienttest.Server, entry manager.Controller, caches ...Cache) manager.Context {
	t.Helper()
	c := manager.Context{
		Enabled:   manager.Options{}.Enabled,
		Informers: informers.NewFactory(nil, 0),
		Shared: reconcile.Shared{
			Tracker: freshness.NewTracker(), Mapper: client.BuiltIns{}, Verifier: server,
		},
		Access:          reconcile.Access{Client: server},
		Brake:           brake.New(brake.Budget{}),
		RegisterMetrics: func(...metrics.Registerable) {},
	}
	if entry.Rights != nil {
		c.Access = c.Access.With(entry.Rights())
	}
	for _, one := range caches {
		informer, err := server.NewInformer(t.Context(), one.Example)
		if err != nil {
			t.Fatal(err)
		}
		f := c.Informers
		if one.Selector != nil {
			f = informers.Selecting(f, one.Selector)
		}
		f.InformerFor(one.Example,
			func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	return c
}

// Start runs controllers on an API server, such as one of envtest, until the test ends. It returns when they run, and
// fails the test if that takes too long, or if they do not end well.
//
//	managertest.Start(t, config, controllers.Named("deployment", "replicaset")...)
func Start(t testing.TB, config *rest.Config, controllers ...manager.Controller) *manager.Manager {
	t.Helper()
	return StartWith(t, config, manager.Options{Controllers: controllers})
}

// StartWith does the same with more options, such as a scheme with the kinds of custom resources.
func StartWith(t testing.TB, config *rest.Config, o manager.Options) *manager.Manager {
	t.Helper()
	m, err := manager.New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager has ended with: %v", err)
		}
	})
	patience, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	if err := m.WaitUntilRunning(patience); err != nil {
		t.Fatal(err)
	}
	return m
}

// Gates returns the feature gates without which controllers do not run, all of them on.
func Gates(controllers ...manager.Controller) map[string]bool {
	gates := map[string]bool{}
	for _, c := range controllers {
		for _, gate := range c.Gates {
			gates[gate] = true
		}
	}
	return gates
}

// Projection returns what the caches keep for controllers, which are built for this and never run. Their feature gates
// are on.
func Projection(controllers ...manager.Controller) (informers.Projection, error) {
	m, err := manager.New(&rest.Config{Host: "http://api"},
		manager.Options{Controllers: controllers, FeatureGates: Gates(controllers...)})
	if err != nil {
		return nil, err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Run(ended); err != nil {
		return nil, err
	}
	return m.Projection()
}

// Run runs a controller of the registry on the server, in virtual time, while a test works. The test begins when the
// controller has nothing left to do.
func Run(t *testing.T, c manager.Context, entry manager.Controller, test func()) {
	t.Helper()
	runner, err := entry.Init(c)
	if err != nil {
		t.Fatal(err)
	}
	if runner == nil {
		t.Fatalf("%s is off", entry.Name)
	}
	clienttest.Run(t, runner.Run, test)
}

// SetFlags sets flags of the controllers of a registry, by name, as a command line does.
func SetFlags(registry []manager.Controller, values map[string]string) error {
	fs := pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	for _, c := range registry {
		if c.Flags != nil {
			c.Flags.AddFlags(fs)
		}
	}
	for name, value := range values {
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}
