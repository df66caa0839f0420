package garbagecollector

import (
	"cmp"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// New returns the garbage collector (GC-1). Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.enabled = cmp.Or(o.Workers, 20), true
	return manager.Controller{
		Name:        "garbage-collector-controller",
		Alias:       "garbagecollector",
		Account:     "generic-garbage-collector",
		Beside:      true,
		EventSource: "garbage-collector-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if !o.enabled {
		return nil, manager.Off{Why: "--enable-garbage-collector=false"}
	}
	clients, err := c.Clients.Faster(2, 1) // twice the requests, as the original may make
	if err != nil {
		return nil, err
	}
	r := &runner{
		client: clients.Client(), mapper: c.Shared.Mapper, events: c.Access.Events, records: explain.NewRecords(nil), hooks: c.Access.Hooks,
		resources: c.Clients.Mapper().PreferredResources, metadata: c.Metadata, workers: int(o.Workers), syncErrors: newSyncErrors(),
		brake: c.Brake,
	}
	r.executor = executor.New(executor.Config{
		Client: r.client, Mapper: c.Shared.Mapper, Tracker: c.Shared.Tracker, Method: c.Access.Method, Events: c.Access.Events,
		Written: c.Access.Hooks.Write, Stale: c.Access.Hooks.Stale,
	})
	c.RegisterMetrics(r.syncErrors)
	return r, nil
}
