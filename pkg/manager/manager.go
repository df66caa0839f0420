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
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/clients"
	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Runner is a controller that has been built. Run works until ctx ends, and leaves no goroutine behind.
type Runner interface {
	Run(ctx context.Context) error
}

// InitFunc builds a controller. It must not block, write, or start goroutines: the process may not be the leader yet.
type InitFunc func(Context) (Runner, error)

// Controller is an entry of the registry.
type Controller struct {
	Name    string // canonical, as --controllers and the log know it (CLI-52)
	Alias   string
	Account string // its client's name and its ServiceAccount in kube-system (CI-20)
	Init    InitFunc
	// Off builds what takes the controller's place when it is switched off. It may be nil, and return nil for nothing.
	Off InitFunc
	// Rights says what it asks of the API server (RB-12). It may be nil: then no role is made for it.
	Rights func() rbac.Rights
}

// Rights returns what the controllers of a registry ask of the API server, by account. Controllers that declare nothing are
// left out.
func Rights(registry []Controller) map[string]rbac.Rights {
	all := map[string]rbac.Rights{}
	for _, c := range registry {
		if c.Rights != nil {
			all[c.Account] = all[c.Account].Merge(c.Rights())
		}
	}
	return all
}

// Context is what an InitFunc builds from.
type Context struct {
	Config    Config
	Informers kubeinformers.SharedInformerFactory
	Shared    engine.Shared // what all controllers of the process share
	Access    engine.Access // this controller's own client and event recorder
}

// Config is everything that a manager needs to know, with all defaults applied.
type Config struct {
	Client  *rest.Config    // how to reach the API server, with the root identity
	Clients clients.Options // user agent, encoding, limits, service accounts

	Controllers map[string]bool // by canonical name; what is not named is off

	// Lacking names what does not work in a cluster because controllers that it needs are wanted, and not there. It is logged
	// as an error when this process begins to lead in the place of the original: without a lease, or with the original's.
	Lacking []string

	MinResyncPeriod time.Duration // informers re-deliver everything once in [this, twice this) (CLI-22)
	StartInterval   time.Duration // each controller starts after [this, twice this) (CLI-23)
	ShutdownTimeout time.Duration // longest wait for controllers to end; zero waits without limit (CLI-24)

	LeaderElect    bool // false: run at once, without a lease (LE-1a)
	LeaderElection leaderelection.Config

	// TerminatingReplicas: the statuses of ReplicaSets and Deployments count terminating pods (CLI-65).
	TerminatingReplicas bool

	Deployment DeploymentConfig
	ReplicaSet ReplicaSetConfig
	Endpoint   EndpointConfig
	PodGC      PodGCConfig

	// Hooks returns who is told what the engine does for a controller, by its canonical name. It may be nil. With it, the
	// informers have metrics of their own under the name of Clients.Component, which one process can have once (MH-35).
	Hooks func(controller string) engine.Hooks

	Bounds Bounds // of health checks
}

// DeploymentConfig is what the deployment controller takes from flags.
type DeploymentConfig struct{ Workers int }

// ReplicaSetConfig is what the replicaset controller takes from flags.
type ReplicaSetConfig struct {
	Workers int
	// PodFailureBackOff: pods that fail at start again and again are replaced at a falling rate.
	PodFailureBackOff bool
	PodDeletionCost   bool // whether the annotation takes part in choosing victims (CLI-66)
	// DeletionAgeRatio is told how many times as old as the youngest ready pod a deleted one was (RS-35). It may be nil.
	DeletionAgeRatio func(float64)
}

// PodGCConfig is what the pod garbage collector takes from flags.
type PodGCConfig struct {
	TerminatedThreshold             int           // finished pods that may stay; zero and less: all (CLI-17)
	TerminatedThresholdPerNamespace int           // the same for each namespace
	TerminatedMaxAge                time.Duration // how long a finished pod may stay; zero: for ever
	OrphanBrake                     float64       // share of the nodes whose loss stops the deletion of orphans; zero: none does
}

// EndpointConfig is what the endpoint controller takes from flags.
type EndpointConfig struct {
	Workers     int
	BatchPeriod time.Duration // between a change of a pod and the look at its services (CLI-16)
	CleanUp     bool          // when the controller is off: delete the Endpoints that it once wrote
}

// ErrShutdownTimeout says that controllers had not ended in time (CLI-24).
var ErrShutdownTimeout = errors.New("controller shutdown timeout reached")

// Manager is a set of controllers that have been built.
type Manager struct {
	Config
	builder    *clients.Builder
	informers  kubeinformers.SharedInformerFactory
	leadership leaderelection.Leadership
	shared     engine.Shared
	runners    []*named
	accounts   []string
	closers    []func() // run by close, last first
	liveness   *informers.WatchLiveness
	refusals   clients.Refusals
	awaited    atomic.Pointer[error]               // why the API server was last waited for; nil: it was not
	caches     atomic.Pointer[[]informers.Started] // nil until they are started
	ending     atomic.Bool
}

// named is a controller that was built.
type named struct {
	Controller
	Runner
	running atomic.Bool
}

// Run builds the controllers of the registry that are switched on and runs them while this process leads. It returns
// when ctx has ended and all work has stopped (nil), or with what made it stop before.
func Run(ctx context.Context, c Config, registry []Controller) error {
	m, err := New(ctx, c, registry)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// Run runs the controllers while this process leads, see the function [Run]. It must be called once at most.
func (m *Manager) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, clients.WithoutBodies(klog.FromContext(ctx)))
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
