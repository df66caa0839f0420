package namespace

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the namespace controller (NS-1). Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.SyncPeriod = cmp.Or(o.Workers, 10), cmp.Or(o.SyncPeriod, 5*time.Minute)
	return manager.Controller{
		Name:    "namespace-controller",
		Alias:   "namespace",
		Account: "namespace-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the cache of namespaces and says how the controller works. It needs no other cache: it lists
// live.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	// The cache only shows which namespaces are being deleted. What is decided and written rests on a live read.
	cached, err := informers.Objects[*corev1.Namespace](c.Informers, "status.phase")
	if err != nil {
		return nil, err
	}
	access, err := access(c)
	if err != nil {
		return nil, err
	}
	observer := newObserver(cached, c.Clients.Mapper().PreferredResourcesSince, o.SyncPeriod)
	return reconcile.New(c.Shared, access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:             "namespace",
		Workers:          int(o.Workers),
		Explained:        []string{"Namespace"},
		Watches:          []reconcile.Watch{cached.Watch(terminating)},
		Observe:          observer.observe,
		Remember:         remember,
		Plan:             reconcile.PlanOnly(planContent),
		Report:           reconcile.ReportOnly[snapshot, struct{}](reportConditions),
		Owner:            owner,
		SkipVerification: true, // the namespace and what is in it are read live
	}), nil
}

// remember keeps what was seen of the content. A round that has failed is no round without effect: the next one does
// not wait longer for it.
func remember(_ time.Time, s snapshot, _ struct{}, m *memory, did, _ plan.Outcome) (*memory, bool) {
	if m == nil || did.Err == nil && len(s.Unlisted) == 0 {
		return m, true
	}
	kept := *m
	if kept.Swept = did.Err == nil; did.Err != nil {
		kept.Deleted, kept.Rounds = nil, 0
	}
	return &kept, true
}

// access is that of the controller, with more requests than others have: a round lists all that a namespace can hold
// (NS-3).
func access(c manager.Context) (reconcile.Access, error) {
	clients, err := c.Clients.Faster(20, 100)
	if err != nil {
		return reconcile.Access{}, err
	}
	a := c.Access
	a.Client = clients.Client()
	return a, nil
}

// terminating enqueues a namespace when its deletion is seen first (NS-4). Later changes, its own statuses among
// them, bring nothing new: a round that has left something is followed by another one. After a gap in the watch,
// before may be another namespace of that name.
func terminating(before, after plan.Object) []plan.Key {
	if after == nil || after.GetDeletionTimestamp() == nil {
		return nil
	}
	if before != nil && before.GetUID() == after.GetUID() && before.GetDeletionTimestamp() != nil {
		return nil
	}
	return []plan.Key{{Name: after.GetName()}}
}

// owner is not what events are recorded on, as there are none (NS-42), but what the executor takes the plan to be
// about.
func owner(s snapshot) plan.Object { return s.Namespace }
