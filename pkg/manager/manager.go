// Package manager builds the controllers, takes part in leader election, and runs the controllers while it leads. It is
// the library face of this project: a control plane that embeds it calls [Run] with its own registry.
package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Config is everything that a manager needs to know, with all defaults applied.
type Config struct {
	Client  *rest.Config     // how to reach the API server, with the root identity
	Clients identity.Options // user agent, encoding, limits, service accounts

	Controllers map[string]bool // by canonical name; what is not named is off

	// RootCAFile names the file with the certificate authorities by which pods verify the API server (TOK-3). Empty: those by which
	// Client does.
	RootCAFile string

	// Lacking names what does not work in a cluster because controllers that it needs are wanted, and not there. It is logged
	// as an error when this process begins to lead in the place of the original: without a lease, or with the original's.
	Lacking []string

	// Missing are controllers that this program does not have and that people may look for, by canonical name. [Manager.Explain] names them.
	Missing []string

	MinResyncPeriod time.Duration // informers re-deliver everything once in [this, twice this) (CLI-22)
	StartInterval   time.Duration // each controller starts after [this, twice this) (CLI-23)
	ShutdownTimeout time.Duration // longest wait for controllers to end; zero waits without limit (CLI-24)

	LeaderElect    bool // false: run at once, without a lease (LE-1a)
	LeaderElection leaderelection.Config

	// Enabled tells whether a feature gate of Kubernetes is on. Nil: all are that a controller asks for.
	Enabled func(gate string) bool

	// Hooks returns who is told what a controller does, by its canonical name. It may be nil. With it, the
	// informers have metrics of their own under the name of Clients.Component, which one process can have once (MH-35).
	Hooks func(controller string) reconcile.Hooks

	// RegisterMetrics is given the metrics that controllers have of their own (MH-31), while they are built. It may be nil.
	RegisterMetrics func(...metrics.Registerable)

	Bounds Bounds // of health checks
}

// ErrShutdownTimeout says that controllers had not ended in time (CLI-24).
var ErrShutdownTimeout = errors.New("controller shutdown timeout reached")

// Manager is a set of controllers that have been built.
type Manager struct {
	Config
	registry    []Controller
	stop        atomic.Pointer[context.CancelCauseFunc] // ends Run; nil before it is called
	builder     *identity.Builder
	informers   kubeinformers.SharedInformerFactory
	metadata    *metadata.Informers
	leadership  leaderelection.Leadership
	mapper      *client.Mapper
	shared      reconcile.Shared
	runners     []*named
	off         []OffState
	accounts    []string
	closers     []func() // run by close, last first
	liveness    *listwatch.Liveness
	refusals    identity.Refusals                   // of the lease
	serverError atomic.Pointer[error]               // why the API server was last waited for; nil: it was not
	caches      atomic.Pointer[[]informers.Started] // nil until they are started
	ending      atomic.Bool
}

// named is a controller that was built.
type named struct {
	Controller
	Runner
	running  atomic.Bool
	refusals identity.Refusals // of what it writes with its own identity
}

// Run builds the controllers of the registry that are switched on and runs them while this process leads. It returns
// when ctx has ended and all work has stopped (nil), or with what made it stop before. When the API server goes back to an earlier state
// ([ErrRolledBack]), it begins anew.
func Run(ctx context.Context, c Config, registry []Controller) error {
	m, err := New(ctx, c, registry)
	if err != nil {
		return err
	}
	return Supervise(ctx, m, func(*Manager) func() { return func() {} })
}

// Run runs the controllers while this process leads, until ctx has ended and all work has stopped (nil), or something makes it stop before,
// such as [ErrRolledBack]. It must be called once at most.
func (m *Manager) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m.stop.Store(&stop)
	err := m.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrRolledBack) {
		return cause
	}
	return err
}

func (m *Manager) run(ctx context.Context) error {
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
	return m.leadership.Run(ctx, m.lead)
}
