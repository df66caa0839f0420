package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// newInstance makes the clients, the elector and the controllers. It writes nothing and does not ask the server. What
// it returns has to be run, or closed.
func newInstance(ctx context.Context, config *rest.Config, o Options) (m *instance, err error) {
	ctx = klog.NewContext(ctx, identity.WithoutBodies(klog.FromContext(ctx)))
	if o.ReadOnly {
		reading := *config // its fields stay as they are
		reading.Wrap(identity.ReadOnly)
		config = &reading
	}
	m = &instance{Options: o, config: config, led: func() {}, clock: clock.New()}
	m.explain = m.newExplain()
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	m.builder = identity.NewBuilder(config, identity.Options{
		Component: o.Component, ContentType: o.ContentType, RateLimited: o.QPS > 0, QPS: o.QPS, Burst: o.Burst,
		ServiceAccounts: o.ServiceAccounts,
		MayWrite:        func(string) bool { return m.leadership.Held() }, // one lease for all namespaces
		BeforeWrite:     func(ctx context.Context) error { return m.continuous(ctx) },
		Clock:           m.clock,
	})
	for _, build := range []func() error{
		m.buildInformers, m.buildMetadata, func() error { return m.buildLeadership(ctx) }, m.buildShared,
	} {
		if err := build(); err != nil {
			return m, err
		}
	}
	var broken []error
	for _, entry := range rootFirst(o.Controllers) {
		if !m.on(entry) {
			m.switchOff(ctx, entry)
			entry.Needs, entry.Uses, entry.GatedUses = nil, nil, nil
			if entry.Init = entry.Instead; entry.Init == nil || o.ReadOnly { // what takes its place cleans up
				continue
			}
		}
		if err := m.buildController(ctx, entry); err != nil {
			broken = append(broken, fmt.Errorf("controller %s: %w", entry.Name, err))
		}
	}
	return m, utilerrors.NewAggregate(broken) // all of them, so that one start shows what is to be repaired (REG-82)
}

// on reports whether a controller runs (REG-60).
func (m *instance) on(entry Controller) bool {
	_, off := m.Off[entry.Name]
	return !off && m.closed(entry) == ""
}

// closed returns a feature gate that a controller needs and that is off; empty if there is none.
func (m *instance) closed(entry Controller) string {
	for _, gate := range entry.Gates {
		if !m.Enabled(gate) {
			return gate
		}
	}
	return ""
}

// switchOff logs and notes why a controller does not run (REG-61).
func (m *instance) switchOff(ctx context.Context, entry Controller) {
	logger := klog.FromContext(ctx).WithValues("controller", entry.Name)
	if reason, off := m.Off[entry.Name]; off {
		logger.Info("Warning: controller is disabled")
		m.noteOff(entry, reason)
		return
	}
	reason := "the feature gate " + m.closed(entry) + " is off"
	logger.Info("Controller is disabled by a feature gate", "requiredFeatureGates", entry.Gates)
	logger.Info("Warning: skipping controller", "reason", reason)
	m.noteOff(entry, reason)
}

// rootFirst returns the controllers in the order in which they are built (TOK-1).
func rootFirst(registry []Controller) []Controller {
	root := func(c Controller) bool { return c.Root }
	others := slices.DeleteFunc(slices.Clone(registry), root)
	return append(slices.DeleteFunc(slices.Clone(registry), func(c Controller) bool { return !root(c) }), others...)
}

// buildInformers makes the caches' client and factory. Nothing is listed yet.
func (m *instance) buildInformers() error {
	client, err := listwatch.NewClient(m.builder.Config(identity.Informers), nil) // it keeps what controllers ask for
	if err != nil {
		return fmt.Errorf("client for informers: %w", err)
	}
	client.OnRollback(m.rolledBack)
	m.continuous = client.Continuous
	if err := m.followAPIs(); err != nil {
		return err
	}
	client.FollowAPIs(m.apis)
	m.caches.Liveness = client.Liveness()
	var options []kubeinformers.SharedInformerOption
	if m.Hooks != nil {
		if name, err := cache.NewInformerName(m.Component); err == nil { // else another manager has it
			options = append(options, kubeinformers.WithInformerName(name))
			m.closers = append(m.closers, name.Release)
		}
	}
	m.informers = informers.NewFactory(client, informers.DrawResync(m.MinResyncPeriod), options...)
	for _, s := range m.schemes() {
		m.informers.AddScheme(s,
			func(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
				found, err := m.mapper.Mapping(ctx, kind)
				return found.GroupVersionResource(), err
			})
	}
	m.closers = append(m.closers, m.informers.Shutdown)
	return nil
}

// buildMetadata makes the caches of metadata. They watch nothing until a controller subscribes.
func (m *instance) buildMetadata() error {
	client, err := metadataclient.NewForConfig(m.builder.Config(identity.Informers))
	if err != nil {
		return fmt.Errorf("client for metadata: %w", err)
	}
	m.caches.Metadata = metadata.New(client)
	m.caches.Metadata.UseCaches(func(resource schema.GroupVersionResource) cache.SharedIndexInformer {
		return informers.StartedInformer(m.informers, resource)
	})
	m.caches.Metadata.OnRollback(m.rolledBack)
	m.closers = append(m.closers, m.caches.Metadata.Shutdown)
	return nil
}

// buildLeadership makes the elector, or what leads always, and has the brakes follow the lease.
func (m *instance) buildLeadership(ctx context.Context) error {
	m.brakes = newBrakeSet(m.Brake, m.builder, m.Component)
	if !m.LeaderElect {
		m.leadership = leaderelection.Always{}
		return nil
	}
	elector, closeEvents, err := m.newElector(ctx)
	if err != nil {
		return err
	}
	m.closers = append(m.closers, closeEvents)
	elector.OnRollback(m.rolledBack)
	m.brakes.Follow(elector)
	m.leadership = elector
	return nil
}

// buildShared makes what all controllers share. The mapper and the verifier have the identity that fills the caches.
func (m *instance) buildShared() error {
	config := m.builder.Config(identity.Informers)
	mapper, err := client.NewMapper(config)
	if err != nil {
		return err
	}
	reading, err := client.NewClients(config, mapper, m.clientOptions())
	if err != nil {
		return err
	}
	for _, s := range m.schemes() {
		mapper.AddScheme(s)
	}
	m.mapper = mapper
	m.shared = reconcile.Shared{
		Tracker: freshness.NewTracker(), Mapper: mapper, Verifier: reading.Reader(),
		Clock: reconcile.ClockOf(m.clock.Now), ReadOnly: m.ReadOnly,
	}
	return nil
}

// schemes are those with the kinds that are not built in.
func (m *instance) schemes() (all []*runtime.Scheme) {
	if m.Scheme != nil {
		all = append(all, m.Scheme)
	}
	for _, c := range m.Controllers {
		if c.Scheme != nil {
			all = append(all, c.Scheme)
		}
	}
	return all
}

// clientOptions let a worker know that a request of its has ended. Who only observes may list, and not get.
func (m *instance) clientOptions() client.Options {
	return client.Options{OnRequestDone: queue.Progress, GetByList: m.ReadOnly}
}

// buildController builds one controller with clients of its own identity, a brake and the hooks of metrics.
func (m *instance) buildController(ctx context.Context, entry Controller) error {
	config, err := m.builder.RootController(entry.Account), error(nil)
	if !entry.Root {
		if config, err = m.builder.Controller(entry.Account); err != nil {
			return err
		}
	}
	built := &named{Controller: entry, brake: m.brakes.Add(entry.Name, entry.Alias)}
	config.Wrap(built.refusals.WrapWrites)
	own, err := client.NewClients(config, m.mapper, m.clientOptions())
	if err != nil {
		return err
	}
	access := reconcile.Access{Client: own.Client()}
	if access.Events, err = m.recorderOf(ctx, entry, own); err != nil {
		return err
	}
	if entry.Rights != nil {
		access = access.With(entry.Rights())
	}
	if m.Hooks != nil {
		access.Hooks = m.Hooks(entry.Name)
	}
	runner, err := entry.Init(m.contextOf(built, own, access))
	var off Off
	switch {
	case errors.As(err, &off):
		line := cmp.Or(off.Log, "Warning: skipping controller")
		klog.FromContext(ctx).Info(line, "controller", entry.Name, "reason", off.Why)
		m.noteOff(entry, off.Why)
		return nil
	case err == nil && runner == nil && m.on(entry):
		return errors.New("there is nothing to run, and no Off that says why")
	case err != nil || runner == nil:
		return err
	}
	built.Runner = runner
	m.runners = append(m.runners, built)
	if !entry.Root {
		m.accounts = append(m.accounts, entry.Account)
	}
	return nil
}

// recorderOf returns what records the events of a controller; nil for a manager that only observes.
func (m *instance) recorderOf(
	ctx context.Context, entry Controller, own *client.Clients,
) (record.EventRecorder, error) {
	if m.ReadOnly {
		return nil, nil
	}
	events, err := m.eventsOf(entry, own)
	if err != nil {
		return nil, err
	}
	recorder, end := identity.NewRecorder(context.WithoutCancel(ctx), events.CoreV1(),
		cmp.Or(entry.EventSource, entry.Account), 3)
	m.closers = append(m.closers, end)
	return recorder, nil
}

// eventsOf returns the client with which a controller records events. If its account may not, the root identity does
// it: a write that is refused for long is reported, whatever the controller is.
func (m *instance) eventsOf(entry Controller, own *client.Clients) (kubernetes.Interface, error) {
	if entry.Rights == nil || client.MayRecordEvents(entry.Rights()) {
		return own.Kubernetes()
	}
	root, err := m.root()
	if err != nil {
		return nil, err
	}
	return root.Kubernetes()
}

// contextOf is what a controller is built from.
func (m *instance) contextOf(entry *named, own *client.Clients, access reconcile.Access) Context {
	var mayCache func(schema.GroupResource) error // nil: anything
	if entry.Rights != nil {
		mayCache = entry.Rights().MayCache
	}
	return Context{
		RootCAFile: m.RootCAFile, Config: m.config, Enabled: m.Options.Enabled, Metadata: m.caches.Metadata,
		Informers: m.informers.Limited(mayCache).WithAPIs(entry.Needs, m.uses(entry.Controller)),
		Clients:   own, Root: m.root, Shared: m.shared, Access: access, Brake: entry.brake,
		RegisterMetrics: m.registerMetrics,
	}
}

// noteOff remembers why a controller is off.
func (m *instance) noteOff(entry Controller, reason string) {
	m.off = append(m.off, OffState{Name: entry.Name, Alias: entry.Alias, Reason: reason})
}

// registerMetrics has metrics of controllers served until the manager ends.
func (m *instance) registerMetrics(own ...metrics.Registerable) {
	if m.RegisterMetrics != nil {
		m.closers = append(m.closers, m.RegisterMetrics(own...))
	}
}

// root returns the clients of the root identity, for controllers that cannot work as their service account.
func (m *instance) root() (*client.Clients, error) {
	return client.NewClients(m.builder.Guarded(identity.Root), m.mapper, m.clientOptions())
}

// close releases what was built, the last first.
func (m *instance) close() {
	for i := len(m.closers) - 1; i >= 0; i-- {
		m.closers[i]()
	}
	m.closers = nil
}
