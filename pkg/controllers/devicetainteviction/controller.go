package devicetainteviction

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// name is that of the controller, of its account, of its queue, of the source of its events, and of who writes the
// status of rules.
const name = "device-taint-eviction-controller"

// rulesGate is the feature gate without which DeviceTaintRules are not obeyed (REG-43).
const rulesGate = "DRADeviceTaintRules"

// statusPeriod is how long the status of a rule may be behind, unless its spec has changed (DTE-7).
const statusPeriod = 10 * time.Second

// New returns the device taint eviction controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 8)
	version := resourcev1.SchemeGroupVersion
	return manager.Controller{
		Name:    name,
		Account: name,
		Flags:   &o,
		Gates:   []string{"DRADeviceTaints"},
		Needs: []schema.GroupVersionResource{
			version.WithResource("resourceclaims"), version.WithResource("resourceslices"),
		},
		Uses:   []schema.GroupVersionResource{version.WithResource("devicetaintrules")}, // since 1.37
		Rights: Rights,
		Init:   o.init,
	}
}

// init builds the controller of pods, which are evicted, and that of rules, whose status tells of it.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers, c.Enabled(rulesGate))
	if err != nil {
		return nil, err
	}
	k.brake = c.Brake
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	pods := reconcile.New(c.Shared, c.Access, o.pods(k, own))
	if k.rules == nil {
		return pods, nil
	}
	return reconcile.Together(pods, reconcile.New(c.Shared, c.Access, k.statuses())), nil
}

// pods is the controller of pods.
func (o *Options) pods(k *caches, own *collectors) reconcile.Controller[snapshot, decision, memory] {
	c := reconcile.Controller[snapshot, decision, memory]{
		Name:      name,
		Workers:   int(o.Workers),
		Explained: []string{k.pods.Kind().Kind},
		Watches: []reconcile.Watch{
			k.pods.Watch(k.enqueuedByPod), k.claims.Watch(k.enqueuedByClaim), k.slices.Watch(k.enqueuedBySlice),
		},
		Term:     k.term,
		Observe:  k.observe,
		Subject:  func(s snapshot) types.UID { return s.Pod.UID },
		Prove:    prove,
		Plan:     planEviction,
		Remember: reconcile.RememberOutcome(remember),
		Applied:  k.applied(own),
		Brake:    k.brake,
	}
	if k.rules != nil {
		c.Watches = append(c.Watches, k.term.Follow(k.rules.Watch(k.enqueuedByRule)))
	}
	return c
}

// statuses is the controller of rules.
func (k *caches) statuses() reconcile.Controller[ruleSnapshot, struct{}, struct{}] {
	paced := informers.WithDelay(func(plan.Key) time.Duration { return statusPeriod })
	return reconcile.Controller[ruleSnapshot, struct{}, struct{}]{
		Name:      "device_taint_rule",
		QueueName: name,
		Workers:   1,
		Explained: []string{k.rules.Kind().Kind},
		Watches: []reconcile.Watch{
			k.rules.Watch(rulesBySpec), k.rules.Watch(rulesByStatus, paced),
			k.claims.Watch(k.rulesByClaim, paced), k.pods.Watch(k.rulesByPod, paced),
			k.slices.Watch(informers.None), // a preview is written once, so all must be known that it counts
		},
		Observe:          k.observeRule,
		Owner:            func(s ruleSnapshot) plan.Object { return s.Rule },
		SkipVerification: true, // the uid is a precondition, and the status follows from what there is
		Plan:             reconcile.PlanOnly(planRule),
		Report:           reconcile.ReportOnly[ruleSnapshot, struct{}](reportRule),
	}
}

// newCaches asks for the caches.
func newCaches(f *informers.Factory, rules bool) (*caches, error) {
	k := &caches{}
	var errs [4]error
	k.pods, errs[0] = informers.Objects[*corev1.Pod](f, "status.phase", "spec.nodeName", "spec.resourceClaims",
		"status.resourceClaimStatuses", "status.extendedResourceClaimStatus.resourceClaimName")
	const results = "status.allocation.devices.results."
	k.claims, errs[1] = informers.IndexedObjects(f, "pool", poolsOfClaim, "status.reservedFor",
		"status.allocation.allocationTimestamp", results+"driver", results+"pool", results+"device",
		results+"tolerations")
	k.slices, errs[2] = informers.IndexedObjects(f, "pool", poolsOfSlice, "spec.driver", "spec.pool",
		"spec.devices.name", "spec.devices.taints")
	if rules {
		var all informers.Store[*resourcev1.DeviceTaintRule]
		all, errs[3] = informers.Objects[*resourcev1.DeviceTaintRule](f, "spec", "status.conditions")
		k.rules = &all
	}
	k.term = newTerm()
	return k, errors.Join(errs[:]...)
}
