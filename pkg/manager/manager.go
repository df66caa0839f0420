package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/apis"
	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Manager is a set of controllers that have been built. Its methods may be called at any time, from several goroutines.
type Manager struct {
	config  *rest.Config
	options Options
	current atomic.Pointer[instance] // replaced when the API server has gone back

	begun   atomic.Bool
	running chan struct{} // closed when the controllers run for the first time
	ended   chan struct{} // closed when Run has returned err
	err     error
}

// New builds the controllers. It writes nothing and does not ask the server, whose address and credentials are in the
// configuration. What it returns has to be run.
func New(config *rest.Config, o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{config: config, options: o, running: make(chan struct{}), ended: make(chan struct{})}
	if err := m.build(klog.NewContext(context.Background(), o.Logger)); err != nil {
		return nil, err
	}
	return m, nil
}

// build builds the controllers, or builds them anew.
func (m *Manager) build(ctx context.Context) error {
	built, err := newInstance(ctx, m.config, m.options)
	if err != nil {
		return err
	}
	built.led = sync.OnceFunc(func() {
		select {
		case <-m.running:
		default:
			close(m.running)
		}
	})
	m.current.Store(built)
	return nil
}

// Run runs the controllers while this process leads. It returns when ctx has ended and all work has stopped (nil), or
// with what made it stop before. It can be called once.
func (m *Manager) Run(ctx context.Context) error {
	if !m.begun.CompareAndSwap(false, true) {
		return errors.New("a manager runs only once")
	}
	defer close(m.ended)
	m.err = m.supervise(ctx)
	return m.err
}

// WaitUntilRunning returns nil when the controllers have begun to run, as the leader if there is an election, and all
// caches are filled. It returns an error when ctx ends or the manager does before.
func (m *Manager) WaitUntilRunning(ctx context.Context) error {
	select {
	case <-m.running:
		return nil
	case <-m.ended:
		if m.err != nil {
			return m.err
		}
		return errors.New("the manager has ended")
	case <-ctx.Done():
		err := ctx.Err()
		for _, check := range m.Readyz() {
			if why := check.Err(); why != nil {
				err = fmt.Errorf("%w; %s: %w", err, check.Name, why)
			}
		}
		return fmt.Errorf("the controllers do not run yet: %w", err)
	}
}

// Component is what begins all user agents.
func (m *Manager) Component() string { return m.options.Component }

// Projection returns what the caches keep: the fields that controllers have asked for.
func (m *Manager) Projection() (informers.Projection, error) {
	return m.current.Load().informers.Projection()
}

// Healthz returns the checks that the original has too (MH-17): leaderElection when there is an election, and one for
// each controller that runs. The latter always passes, so that what probes /healthz in an existing cluster sees nothing
// new; [Manager.Livez] has those that can fail.
func (m *Manager) Healthz() []Check { return m.current.Load().Healthz() }

// Livez returns the checks of what a restart of this process heals: a lease that is not renewed while it works on,
// workers that are stuck, a queue that nobody serves, a watch that has died unnoticed. A cache that has not been
// filled yet never fails, nor does an API server that cannot be reached.
func (m *Manager) Livez() []Check { return m.current.Load().Livez() }

// Readyz returns the checks of whether this process is, or could at once become, one that works: its caches are
// filled and follow the API server, nothing is lastingly refused by that (401, 403), and it is not about to end. A
// standby is ready like a leader. Caches of metadata do not count: a broken custom resource must not make the process
// unready. It fails a check of the controller that needs it, which is advisory (REG-103).
//
// A leader that may not write what a controller has to is not ready: nothing takes the lease from it for that, as no
// other process with the same rights could do more, but a rollout with too few rights stops there, and who looks sees
// why.
func (m *Manager) Readyz() []Check { return m.current.Load().Readyz() }

// Explain answers, in JSON, why nothing is happening: at /debug/explain with the controllers and their keys that fail
// or wait, and the controllers that are off and why, and at /debug/explain/<controller>/<namespace>/<name> with what
// a controller last made of a key. At /debug/snapshot/<controller>/<namespace>/<name> it adds what the controller
// sees and would do now. The controller may be its name, its alias, or the kind of its objects. Keys without a
// namespace have none in their path. Nothing is written for an answer.
func (m *Manager) Explain() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.current.Load().explain.ServeHTTP(w, r) })
}

// Handlers returns what controllers of this process serve themselves, by path, below /debug/controllers. A [Runner]
// that serves something has the method Handlers.
func (m *Manager) Handlers() map[string]http.Handler {
	all := map[string]http.Handler{}
	for path := range m.current.Load().Handlers() {
		all[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.current.Load().Handlers()[path].ServeHTTP(w, r)
		})
	}
	return all
}

// ControllerStates reports how the controllers of this process do, for metrics.
func (m *Manager) ControllerStates() []ControllerState { return m.current.Load().ControllerStates() }

// OffStates reports which controllers are off in this process: those of the registry, in its order, then those whose
// needs the API server does not serve at the moment, and then those that are missing.
func (m *Manager) OffStates() []OffState { return m.current.Load().OffStates() }

// CacheStates reports how the caches of this process do, for metrics. There are none before [Manager.Run].
func (m *Manager) CacheStates() []CacheState { return m.current.Load().CacheStates() }

// instance is a manager until its API server goes back to an earlier state. Then another one takes its place.
type instance struct {
	Options
	config *rest.Config
	led    func()                                  // called when the controllers run and the caches are filled
	stop   atomic.Pointer[context.CancelCauseFunc] // ends Run; nil before it is called
	// builder makes the clients, one for each identity.
	builder *identity.Builder
	// clock hears the time from all answers of the API server.
	clock     *clock.Clock
	informers *informers.Factory
	// leadership is the elector, or what leads always.
	leadership leaderelection.Leadership
	mapper     *client.Mapper
	// shared is what all controllers have in common.
	shared reconcile.Shared
	brakes *brakeSet
	// runners are the controllers that were built, in the order of the registry.
	runners []*named
	// off are those of the registry that do not run, and why.
	off         []OffState
	accounts    []string
	closers     []func()              // run by close, last first
	apis        *apis.APIs            // that controllers need or use
	refusals    identity.Refusals     // of the lease
	serverError atomic.Pointer[error] // why the API server was last waited for; nil: it was not
	// caches show health and metrics how the caches do.
	caches     caches
	continuous func(context.Context) error // see [listwatch.Client.Continuous]
	// ending says that the process is about to end, so it is not ready.
	ending  atomic.Bool
	explain http.Handler
}

// named is a controller that was built.
type named struct {
	Controller
	Runner
	running  atomic.Bool
	refusals identity.Refusals // of what it writes with its own identity
	brake    *brake.Brake
}

// Run runs the controllers while this process leads, until ctx has ended and all work has stopped (nil), or something
// makes it stop before, such as [ErrRolledBack]. It must be called once at most.
func (m *instance) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m.stop.Store(&stop)
	err := m.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrRolledBack) && !errors.Is(err, ErrShutdownTimeout) {
		return cause
	}
	return err // what has not stopped is not begun anew
}

// run goes through the life of a process: it waits for the server, starts the caches, and leads while it may.
func (m *instance) run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, identity.WithoutBodies(klog.FromContext(ctx)))
	defer m.close()
	defer m.ending.Store(true)
	defer context.AfterFunc(ctx, func() { m.ending.Store(true) })()
	if err := m.waitForServer(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	m.startInformers(ctx) // before the lease is won: a standby is warm
	if m.FollowCaches != nil {
		if err := m.FollowCaches(m.informers); err != nil {
			return fmt.Errorf("follow the caches: %w", err)
		}
	}
	return m.leadership.Run(ctx, m.lead)
}
