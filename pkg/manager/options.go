package manager

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/features"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options say what a manager runs, and how. The zero value of each field is a default that works.
type Options struct {
	// Controllers are what runs. Those of Kubernetes are in the packages below pkg/controllers.
	Controllers []Controller
	// Off are those of Controllers that do not run, by name, with the reasons, for a program whose users choose. A
	// controller may have something to do in its place, see [Controller.Instead].
	Off map[string]string
	// Scheme has the kinds that are not built in, as of custom resources, and that controllers cache and write as
	// typed objects.
	Scheme *runtime.Scheme

	// Component begins every user agent, which the API server takes for the field manager, and names the source of
	// leader events. Empty: "controller-manager".
	Component string
	// ContentType is what bodies are encoded as, and what answers are asked for first. Empty: protobuf. Kinds of
	// Scheme are always sent in JSON.
	ContentType string
	// QPS and Burst limit the requests of each client, that is of each controller. Without QPS there is no limit on
	// the client: the server says when to wait.
	QPS   float32
	Burst int
	// ServiceAccounts gives each controller the identity of a service account in kube-system, see [Controller.Account].
	ServiceAccounts bool

	// RootCAFile names the file with the certificate authorities by which pods verify the API server (TOK-3). Empty:
	// those by which this process does.
	RootCAFile string
	// FeatureGates switches feature gates of Kubernetes, by name. Those that it does not name have the defaults of
	// Kubernetes.
	FeatureGates map[string]bool

	// ReadOnly: the manager observes a cluster beside whoever leads. Its controllers observe and plan, and
	// [Manager.Explain] shows what they would do; nothing is carried out, no event is recorded, and no request that
	// writes leaves the process. It takes part in no election.
	ReadOnly bool

	// LeaderElect: the controllers run only while the process holds a lease. Without it they run at once (LE-1a).
	LeaderElect bool
	// LeaderElection says which lease. Fields that are zero have their defaults. Its ShutdownTimeout follows that of
	// the manager.
	LeaderElection leaderelection.Config

	// Brake says how many objects of others a controller may remove at once without further proof.
	Brake brake.Budget

	// informers re-deliver everything once in [this, twice this) (CLI-22); zero: 12h, negative: never
	MinResyncPeriod time.Duration
	StartInterval   time.Duration // each controller starts after [this, twice this) (CLI-23)
	ShutdownTimeout time.Duration // longest wait for controllers to end (CLI-24); zero: 10s, negative: without limit

	// Hooks returns what is called with what a controller does, by its canonical name. It may be nil. With it, the
	// informers have metrics of their own under the name of Component, which one process can have once (MH-35).
	Hooks func(controller string) reconcile.Hooks
	// FollowCaches is given the caches when they have been started, before a controller runs. They are only to be read.
	// It may be nil.
	FollowCaches func(*informers.Factory) error
	// Gone is called with each object of the caches of objects that a watch shows to be gone while the controllers run,
	// as it was seen last, and not with those of which only metadata are cached. It may be nil, is called by several
	// goroutines, and is not to block or to change what it gets.
	Gone func(plan.Object)
	// RegisterMetrics is given the metrics that controllers have of their own (MH-31), while they are built. What it
	// returns is called when they have ended. It may be nil.
	RegisterMetrics func(...metrics.Registerable) (unregister func())
	// Bounds are those of health checks.
	Bounds Bounds

	// Lacking names what does not work in a cluster because controllers that it needs are wanted, and not there. It
	// is logged as an error when this process begins to lead in the place of the original: without a lease, or with
	// the original's.
	Lacking []string
	// Missing are controllers that this program does not have and that people may look for, by canonical name.
	// [Manager.Explain] names them.
	Missing []string

	// Logger is for what is logged while the manager is built; later it is that of the context. The zero value stands
	// for that of klog.
	Logger klog.Logger
}

// withDefaults returns the options with defaults in place of zeros, or what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	if err := o.validate(); err != nil {
		return o, err
	}
	for _, gate := range slices.Sorted(maps.Keys(o.FeatureGates)) {
		if _, known := features.Default(gate); !known {
			return o, fmt.Errorf("no feature gate of Kubernetes is called %q", gate)
		}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = klog.Background()
	}
	o.Component = cmp.Or(o.Component, "controller-manager")
	o.MinResyncPeriod = cmp.Or(o.MinResyncPeriod, 12*time.Hour)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	o.LeaderElection = o.LeaderElection.WithDefaults()
	// The elector waits a little longer than the manager does, so that it is the manager who says what did not end
	// (CLI-24).
	o.LeaderElection.ShutdownTimeout = o.ShutdownTimeout + time.Second
	if o.ShutdownTimeout < 0 {
		o.LeaderElection.ShutdownTimeout = 365 * 24 * time.Hour // no limit
	}
	return o, nil
}

// Enabled reports whether a feature gate is on.
func (o Options) Enabled(gate string) bool {
	if on, said := o.FeatureGates[gate]; said {
		return on
	}
	on, _ := features.Default(gate)
	return on
}

// validate returns what is wrong with the controllers.
func (o Options) validate() error {
	var wrong []error
	if o.ReadOnly && o.LeaderElect {
		wrong = append(wrong, errors.New("LeaderElect writes a lease, which ReadOnly forbids"))
	}
	if o.ReadOnly && o.ServiceAccounts {
		wrong = append(wrong, errors.New("ServiceAccounts asks for tokens, which ReadOnly forbids"))
	}
	known := map[string]bool{}
	for i, c := range o.Controllers {
		switch {
		case c.Name == "":
			wrong = append(wrong, fmt.Errorf("controller %d has no name", i))
		case known[c.Name]:
			wrong = append(wrong, fmt.Errorf("two controllers have the name %q", c.Name))
		case c.Init == nil:
			wrong = append(wrong, fmt.Errorf("controller %s has no Init", c.Name))
		case c.Account == "" && o.ServiceAccounts && !c.Root:
			wrong = append(wrong, fmt.Errorf("controller %s has no Account, which ServiceAccounts asks for", c.Name))
		}
		known[c.Name] = true
	}
	return utilerrors.NewAggregate(wrong)
}
