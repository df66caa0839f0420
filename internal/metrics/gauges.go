package metrics

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// managed is a gauge of what the managers of a process have.
type managed struct {
	*gauge.Gauge

	mu sync.Mutex
	// sources are the managers of this process that are followed.
	sources []*manager.Manager
}

// follow has the gauge follow a manager, too.
func (g *managed) follow(m *manager.Manager) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources = append(g.sources, m)
}

// unfollow ends that.
func (g *managed) unfollow(m *manager.Manager) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources = slices.DeleteFunc(g.sources, func(s *manager.Manager) bool { return s == m })
}

// newGauges returns what is said of controllers and caches. Values of several managers in one process are added up; the
// age of a cache and the wait in a queue are those of the last.
func newGauges() []*managed {
	return slices.Concat(ofQueues(), ofBrakes(), ofPresence(), ofCaches())
}

// ofQueues are the gauges of keys that wait or fail, and of writes.
func ofQueues() []*managed {
	return []*managed{
		ofControllers("controller_manager_keys_failing",
			"Keys whose last reconcile has failed, and which wait for the next.",
			func(s reconcile.Status) int { return s.Failing }),
		ofControllers("controller_manager_reports_held",
			"Status reports that are debounced, so that a newer one may replace them.",
			func(s reconcile.Status) int { return s.Debounced }),
		ofControllers("controller_manager_write_slots_used", "Requests that write, under way.",
			func(s reconcile.Status) int { return s.Writing }),
		newGauge("controller_manager_queue_wait_seconds",
			"How long the key has waited for a worker that has waited longest in a queue of the controller.",
			func(v *metrics.GaugeVec, m *manager.Manager) {
				for _, c := range m.ControllerStates() {
					var longest time.Duration
					for _, s := range c.Queues {
						longest = max(longest, s.LongestWait)
					}
					v.WithLabelValues(c.Name).Set(longest.Seconds())
				}
			}, "controller"),
		newGauge("controller_manager_writes_refused",
			"Kinds of writes, as \"create pods\", that the API server lastingly refuses to the controller (401, 403).",
			func(v *metrics.GaugeVec, m *manager.Manager) {
				for _, c := range m.ControllerStates() {
					v.WithLabelValues(c.Name).Add(float64(c.Refused))
				}
			}, "controller"),
	}
}

// ofBrakes are the gauges of what brakes hold.
func ofBrakes() []*managed {
	return []*managed{
		whether("controller_manager_brake_held",
			"1 while the brake of the controller holds deletions back, 0 otherwise. See /debug/explain.",
			func(c manager.ControllerState) bool { return len(c.Held) > 0 }),
		whether("controller_manager_brake_released",
			"1 while an annotation of the lease releases the brake of the controller, 0 otherwise.",
			func(c manager.ControllerState) bool { return c.Released }),
	}
}

// ofPresence are the gauges of which controllers run.
func ofPresence() []*managed {
	return []*managed{
		newGauge("controller_manager_controller_off",
			"1 for each controller that does not run in this process, and why.",
			func(v *metrics.GaugeVec, m *manager.Manager) {
				for _, off := range m.OffStates() {
					v.WithLabelValues(off.Name, off.Reason).Set(1)
				}
			}, "controller", "reason"),
		newGauge("running_managed_controllers", "1 while the controller runs in this process, 0 otherwise.",
			func(v *metrics.GaugeVec, m *manager.Manager) {
				for _, c := range m.ControllerStates() {
					running := 0.0
					if c.Running {
						running = 1
					}
					v.WithLabelValues(cmp.Or(c.Alias, c.Name), m.Component()).Add(running) // not all have an alias
				}
			}, "name", "manager"),
	}
}

// ofCaches are the gauges of how old caches are, and how large.
func ofCaches() []*managed {
	return []*managed{
		newGauge("controller_manager_cache_age_seconds",
			"How long the API server has sent nothing for the cache: no event, no bookmark.",
			func(v *metrics.GaugeVec, m *manager.Manager) {
				for _, c := range m.CacheStates() {
					if !c.LastActivity.IsZero() {
						v.WithLabelValues(c.Resource).Set(time.Since(c.LastActivity).Seconds())
					}
				}
			}, "resource"),
		newGauge("controller_manager_cache_objects", "Objects in the cache.",
			func(v *metrics.GaugeVec, m *manager.Manager) {
				for _, c := range m.CacheStates() {
					v.WithLabelValues(c.Resource).Add(float64(c.Count()))
				}
			}, "resource"),
	}
}

// ofControllers returns a gauge of a value that each queue of a controller has.
func ofControllers(name, help string, value func(reconcile.Status) int) *managed {
	return newGauge(name, help, func(v *metrics.GaugeVec, m *manager.Manager) {
		for _, c := range m.ControllerStates() {
			sum := 0
			for _, s := range c.Queues {
				sum += value(s)
			}
			v.WithLabelValues(c.Name).Add(float64(sum))
		}
	}, "controller")
}

// whether returns a gauge that is 1 for the controllers of which something is so.
func whether(name, help string, is func(manager.ControllerState) bool) *managed {
	return newGauge(name, help, func(v *metrics.GaugeVec, m *manager.Manager) {
		for _, c := range m.ControllerStates() {
			value := 0.0
			if is(c) {
				value = 1
			}
			v.WithLabelValues(c.Name).Add(value)
		}
	}, "controller")
}

// newGauge returns a gauge that is filled when it is collected, from all managers that it follows.
func newGauge(name, help string, fill func(*metrics.GaugeVec, *manager.Manager), labels ...string) *managed {
	g := &managed{}
	opts := &metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}
	g.Gauge = gauge.OnCollect(opts, labels, func(v *metrics.GaugeVec) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, m := range g.sources {
			fill(v, m)
		}
	})
	return g
}
