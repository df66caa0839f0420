package manager

import (
	"time"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
)

// ControllerState is how a controller does at one moment.
type ControllerState struct {
	Name, Alias string
	Running     bool
	Pulse       engine.Pulse // empty for a runner that does not tell
}

// CacheState is how a cache does at one moment.
type CacheState struct {
	Resource string     // as "pods"
	Count    func() int // of its objects; the cost grows with them
	// LastActivity is when the API server last answered a list or watch or sent an event or a bookmark; zero if it never has.
	LastActivity time.Time
}

// ControllerStates tells how the controllers of this process do, for metrics.
func (m *Manager) ControllerStates() (all []ControllerState) {
	for _, r := range m.runners {
		all = append(all, ControllerState{Name: r.Name, Alias: r.Alias, Running: r.running.Load(), Pulse: r.pulse()})
	}
	return all
}

// CacheStates tells how the caches of this process do, for metrics. There are none before [Manager.Run].
func (m *Manager) CacheStates() (all []CacheState) {
	for _, c := range m.started() {
		all = append(all, CacheState{
			Resource: c.Resource, LastActivity: m.liveness.Of(c.Resource).LastActivity(),
			Count: func() int { return len(c.Informer.GetStore().ListKeys()) },
		})
	}
	return all
}

// Metrics lists the metrics that controllers have of their own (MH-31), for whoever serves them.
func (m *Manager) Metrics() (all []metrics.Registerable) {
	for _, r := range m.runners {
		if o, ok := r.Runner.(interface{ Metrics() []metrics.Registerable }); ok {
			all = append(all, o.Metrics()...)
		}
	}
	return all
}
