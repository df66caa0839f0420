package manager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Check is one question about the process.
type Check struct {
	Name string
	// Err returns nil, or what is wrong. It is quick.
	Err func() error
	// Advisory: the process works on when it fails, and need not be restarted or taken out of service.
	Advisory bool
}

// Bounds say for how long something may make no progress before a health check fails. A field that is zero or less
// has its default. On a watch without changes an API server sends a bookmark about once a minute, and the first one
// within two.
type Bounds struct {
	Worker time.Duration // livez: a worker at one key, without a request that ends; 5 minutes
	Queue  time.Duration // livez: keys that wait while none is taken and no request ends; 2 minutes
	Watch  time.Duration // livez: a watch that is open and silent, or neither open nor tried; 5 minutes
	Stale  time.Duration // readyz: a cache to which the server has sent nothing; 3 minutes
}

// withDefaults puts defaults in the place of zeros.
func (b Bounds) withDefaults() Bounds {
	either := func(d, otherwise time.Duration) time.Duration { return cmp.Or(max(d, 0), otherwise) }
	return Bounds{
		Worker: either(b.Worker, 5*time.Minute), Queue: either(b.Queue, 2*time.Minute),
		Watch: either(b.Watch, 5*time.Minute), Stale: either(b.Stale, 3*time.Minute),
	}
}

// Healthz is [Manager.Healthz].
func (m *instance) Healthz() []Check {
	checks := m.electionCheck()
	for _, r := range m.runners {
		if r.running.Load() {
			checks = append(checks, Check{Name: r.Name, Err: func() error { return nil }})
		}
	}
	return checks
}

// Livez is [Manager.Livez].
func (m *instance) Livez() []Check {
	bounds := m.Bounds.withDefaults()
	checks := m.electionCheck()
	for _, r := range m.runners {
		if o, ok := r.Runner.(observed); ok {
			checks = append(checks,
				Check{Name: r.Name + "-workers", Err: func() error { return stuck(o.Statuses(), bounds.Worker) }},
				Check{Name: r.Name + "-queue", Err: func() error { return idle(o.Statuses(), bounds.Queue) }})
		}
	}
	return append(checks, m.caches.Live(bounds.Watch)...)
}

// Readyz is [Manager.Readyz].
func (m *instance) Readyz() []Check {
	bounds := m.Bounds.withDefaults()
	checks := []Check{
		{Name: "shutdown", Err: func() error { return fails(m.ending.Load(), "the process is about to end") }},
		{Name: "started", Err: m.notStarted},
	}
	if m.LeaderElect {
		checks = append(checks,
			Check{Name: "lease", Err: func() error { return m.refusals.Of("leases.coordination.k8s.io") }})
	}
	for _, r := range m.runners {
		if r.running.Load() {
			checks = append(checks, Check{Name: r.Name + "-rights", Err: r.refusals.Any})
			if l, ok := r.Runner.(lister); ok {
				checks = append(checks,
					Check{Name: r.Name + "-lists", Advisory: true, Err: func() error { return unlisted(l) }})
			}
		}
	}
	if slices.ContainsFunc(m.runners, func(r *named) bool { return len(r.Needs) > 0 }) {
		checks = append(checks, Check{Name: "needs", Advisory: true, Err: m.needs})
	}
	return append(checks, m.caches.Ready(bounds.Stale)...)
}

// notStarted says why there are no caches yet; nil if there are.
func (m *instance) notStarted() error {
	switch waiting := m.serverError.Load(); {
	case m.caches.Started():
		return nil
	case waiting != nil:
		return fmt.Errorf("the caches have not been started, waiting for the API server: %w", *waiting)
	}
	return errors.New("the caches have not been started")
}

// observed is a runner that reports how its queues do, as those of package reconcile do.
type observed interface{ Statuses() []reconcile.Status }

// stuck returns which worker has been at a key without progress for longer than the bound; nil if none has.
func stuck(queues []reconcile.Status, bound time.Duration) error {
	for _, s := range queues {
		if s.Stuck > bound {
			return fmt.Errorf("a worker has been at %s for %v without progress", s.Key, s.Stuck.Round(time.Second))
		}
	}
	return nil
}

// idle returns in which queue keys wait, of which none has been taken for longer than the bound; nil if there is none.
func idle(queues []reconcile.Status, bound time.Duration) error {
	for _, s := range queues {
		if s.Idle > bound {
			return fmt.Errorf("%d keys wait, and none has been taken for %v", s.Queued, s.Idle.Round(time.Second))
		}
	}
	return nil
}

// lister is a runner that lists resources of its own choice, and works on without those that cannot be listed.
type lister interface{ Unlisted() []string }

// unlisted says what a controller works without, because it could not be listed.
func unlisted(l lister) error {
	if all := l.Unlisted(); len(all) > 0 {
		return fmt.Errorf("works without what could not be listed: %s", strings.Join(all, ", "))
	}
	return nil
}

// electionCheck is the check of the lease; none without an election.
func (m *instance) electionCheck() []Check {
	if !m.LeaderElect {
		return nil
	}
	return []Check{{Name: "leaderElection", Err: m.leadership.Check}}
}

// fails is an error if something is bad.
func fails(bad bool, why string) error {
	if bad {
		return errors.New(why)
	}
	return nil
}
