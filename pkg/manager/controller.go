package manager

import (
	"context"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Runner is a controller that has been built. Run works until ctx ends, and leaves no goroutine behind.
type Runner interface {
	Run(ctx context.Context) error
}

// InitFunc builds a controller. It must not block, write, or start goroutines: the process may not be the leader yet.
// The error may be an [Off].
type InitFunc func(Context) (Runner, error)

// Off is the error with which an [InitFunc] says that the controller does not run, and why. It is no failure (REG-61).
type Off struct {
	Why string
	Log string // the line of the log that says so; empty for the usual one
}

// Error implements error.
func (o Off) Error() string { return o.Why }

// Controller is an entry of the registry: all that there is to know of a controller but what it does. Its folder has a
// function that returns a new one.
type Controller struct {
	Name         string // canonical, as --controllers and the log know it (CLI-52)
	Alias        string
	Account      string // its client's name and its ServiceAccount in kube-system (CI-20); controllers may share one
	EventSource  string // the component that its events name; empty for Account
	OffByDefault bool   // '*' in --controllers leaves it off (CLI-53)
	// Root: it has the root identity instead of a ServiceAccount, and is built before the others (TOK-1). Account
	// only names its client.
	Root bool
	// Beside: a manager beside kube-controller-manager takes it over. Those without it stay in the original by
	// default, because a cluster needs them to start pods, or because the original has their files.
	Beside bool
	Init   InitFunc
	// Instead builds what takes the controller's place when it is switched off. It may be nil, and return nil for
	// nothing.
	Instead InitFunc
	// Flags are its options as a command line sets them, before Init is called. They are nil for a controller without
	// flags, and of no account for programs that have no command line.
	Flags Flags
	// Gates are the feature gates of Kubernetes without which it does not run (REG-60), not even in the place of
	// --controllers that names it (REG-65).
	Gates []string
	// Needs are the APIs without which it cannot work. While the API server does not serve one of them, the
	// controller is off, with a line in the log and a reason where people ask, and holds up nothing: neither other
	// controllers nor the health of the process. Discovery is asked again within a minute. A controller that is
	// switched off meanwhile ends, and begins anew when the API returns. While discovery fails, what it has last said
	// counts.
	Needs []schema.GroupVersionResource
	// Uses are APIs that it works without, and uses when they are served: their caches are not waited for, and may be
	// Missing.
	Uses []schema.GroupVersionResource
	// GatedUses are APIs that it uses likewise, but only while a feature gate of Kubernetes is on, by the name of the
	// gate (REG-92).
	GatedUses map[string][]schema.GroupVersionResource
	// Scheme has kinds that are not built in, and that the controller caches and writes as typed objects. It may be
	// nil.
	Scheme *runtime.Scheme
	// Rights says what it asks of the API server (RB-12). It may then ask only for caches of what is named there. It
	// may be nil: then no role is made for it, and it may cache anything.
	Rights func() rbac.Rights
}

// OnByDefault reports whether the controller runs where nobody names it or its gates.
func (c Controller) OnByDefault() bool {
	closed := func(gate string) bool { return !Options{}.Enabled(gate) }
	return !c.OffByDefault && !slices.ContainsFunc(c.Gates, closed)
}

// Flags are the options of one controller as flags of a command line.
type Flags interface {
	// AddFlags adds the flags. Their defaults are the present values.
	AddFlags(fs *pflag.FlagSet)
	// Validate returns all that is wrong with the values.
	Validate() []error
	// Configz returns the section of a KubeControllerManagerConfiguration that these options are, and its fields,
	// with the names that they have in /configz, by which tools read them (MH-10). An empty section is not shown.
	Configz() (section string, fields any)
}

// Rights returns what the controllers of a registry ask of the API server, by account, those of the root identity under
// [rbac.Root]. Controllers that declare nothing are left out.
func Rights(registry []Controller) map[string]rbac.Rights {
	all := map[string]rbac.Rights{}
	for _, c := range registry {
		if c.Rights == nil {
			continue
		}
		account := c.Account
		if c.Root {
			account = rbac.Root
		}
		all[account] = all[account].Merge(c.Rights())
	}
	return all
}

// Context is what an InitFunc builds from.
type Context struct {
	// RootCAFile is that of [Options].
	RootCAFile string
	// Config says how the process reaches the API server, with the root identity.
	Config *rest.Config
	// Enabled reports whether a feature gate of Kubernetes is on.
	Enabled   func(gate string) bool
	Informers *informers.Factory
	// Metadata are caches of the metadata of any resource, custom ones included, that come and go with discovery.
	// Controllers that want the same resource share one watch.
	Metadata *metadata.Informers
	// Clients are this controller's own, under its identity and limits: typed, metadata, dynamic, scale. They share the
	// process's discovery and RESTMapper.
	Clients *client.Clients
	// Root returns clients of the root identity, for what a controller cannot do as its service account.
	Root   func() (*client.Clients, error)
	Shared reconcile.Shared // what all controllers of the process share
	Access reconcile.Access // what a [reconcile.Runner] needs of this controller's own
	Brake  *brake.Brake     // of this controller
	// RegisterMetrics has metrics of the controller's own served (MH-31).
	RegisterMetrics func(...metrics.Registerable)
}
