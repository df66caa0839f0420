// Package managertest runs controllers of the registry on an API server in memory, for tests.
package managertest

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Cache is a cache of a kind, of all its objects, or of those that the selector of fields matches. The server fills it with all of
// them.
type Cache struct {
	Example  plan.Object
	Selector fields.Selector // nil for all
}

// lease is one that is held.
type lease struct{}

func (lease) Held() bool { return true }

// Context returns what a controller is built from that works on the server. It has these caches.
func Context(t *testing.T, server *clienttest.Server, entry manager.Controller, caches ...Cache) manager.Context {
	t.Helper()
	rights := entry.Rights()
	c := manager.Context{
		Informers: informers.NewFactory(nil, 0),
		Shared: reconcile.Shared{
			Tracker: freshness.NewTracker(), Mapper: client.BuiltIns{}, Lease: lease{}, Explain: reconcile.NewExplain(), Verifier: server,
		},
		Access: reconcile.Access{
			Client: server,
			Method: func(resource schema.GroupResource, subresource string) client.Method {
				return client.MethodFor(rights, resource, subresource)
			},
			MayGet: func(resource schema.GroupResource) bool { return client.MayGet(rights, resource) },
		},
		RegisterMetrics: func(...metrics.Registerable) {},
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
		f.InformerFor(one.Example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	return c
}

// Run runs a controller of the registry on the server, in virtual time, while a test works. The test begins when the controller has
// nothing left to do.
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
