package manager

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/explainhttp"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// ControllerState is how a controller does at one moment.
type ControllerState struct {
	Name, Alias string
	Running     bool
	Queues      []reconcile.Status // none for a runner that does not report them
	// kinds of writes, as "create pods", that the API server lastingly refuses (401, 403)
	Refused  int
	Held     []brake.Hold // what its brake holds
	Released bool         // an operator has released its brake
}

// OffState is a controller that does not run in this process, and why (REG-101).
type OffState struct {
	Name   string
	Alias  string
	Reason string
}

// CacheState is how a cache does at one moment.
type CacheState struct {
	Resource string     // with its group, as "pods" or "deployments.apps", and what is selected of it, if not all
	Count    func() int // of its objects; the cost grows with them
	// LastActivity is when the API server last answered a list or watch or sent an event or a bookmark; zero if it
	// never has.
	LastActivity time.Time
}

// newExplain returns [Manager.Explain].
func (m *instance) newExplain() http.Handler {
	return &explainhttp.Handler{
		Controllers: func() (all []explainhttp.Controller) {
			for _, r := range m.runners {
				if _, missing := m.apis.Missing(r.Needs...); missing {
					continue
				}
				all = append(all, explainhttp.Controller{
					Name: r.Name, Alias: r.Alias, Running: r.running.Load(), Queues: r.statuses(), Records: r.records(),
					Held: r.held(),
				})
			}
			return all
		},
		Off: func() (all []explainhttp.Off) {
			for _, off := range m.OffStates() {
				all = append(all, explainhttp.Off(off))
			}
			return all
		},
	}
}

// records are those of the controller's queues; none for a runner that keeps none.
func (r *named) records() []*explain.Records {
	if o, ok := r.Runner.(interface{ Records() []*explain.Records }); ok {
		return o.Records()
	}
	return nil
}

// statuses are those of the controller's queues; none for a runner that does not report them.
func (r *named) statuses() []reconcile.Status {
	if o, ok := r.Runner.(observed); ok {
		return o.Statuses()
	}
	return nil
}

// held is what the controller's brake holds, while it runs.
func (r *named) held() []brake.Hold {
	if !r.running.Load() {
		return nil
	}
	return r.brake.Holds(time.Now())
}

// Handlers is [Manager.Handlers].
func (m *instance) Handlers() map[string]http.Handler {
	all := map[string]http.Handler{}
	for _, r := range m.runners {
		if own, ok := r.Runner.(interface {
			Handlers() map[string]http.Handler
		}); ok {
			maps.Copy(all, own.Handlers())
		}
	}
	return all
}

// ControllerStates is [Manager.ControllerStates].
func (m *instance) ControllerStates() (all []ControllerState) {
	for _, r := range m.runners {
		all = append(all, ControllerState{
			Name: r.Name, Alias: r.Alias, Running: r.running.Load(), Queues: r.statuses(), Refused: r.refusals.Count(),
			Held:     r.held(),
			Released: r.running.Load() && r.brake.Released(),
		})
	}
	return all
}

// OffStates is [Manager.OffStates].
func (m *instance) OffStates() []OffState {
	all := append(slices.Clone(m.off), m.unserved()...)
	for _, name := range m.Missing {
		all = append(all, OffState{Name: name, Reason: "this build does not have it"})
	}
	return all
}

// CacheStates is [Manager.CacheStates].
func (m *instance) CacheStates() []CacheState { return m.caches.States() }
