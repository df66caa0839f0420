package podgroupprotection

import (
	"cmp"
	"errors"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// The feature gates without which there are no PodGroups, and no CompositePodGroups.
const (
	groupGate     = "GenericWorkload"
	compositeGate = "CompositePodGroup"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // groups of each kind that are reconciled at the same time
}

// New returns the podgroup-protection controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 1)
	return manager.Controller{
		Name:    "podgroup-protection-controller",
		Account: "podgroup-protection-controller",
		Gates:   []string{groupGate},
		Needs:   []schema.GroupVersionResource{schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")},
		GatedUses: map[string][]schema.GroupVersionResource{
			compositeGate: {schedulingv1beta1.SchemeGroupVersion.WithResource("compositepodgroups")},
		},
		Scheme: scheme(),
		Rights: Rights,
		Init:   o.init,
	}
}

// init builds the controller of PodGroups and, if there may be any, that of CompositePodGroups.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	composed := c.Enabled(compositeGate)
	s, err := newStores(c.Informers, composed)
	if err != nil {
		return nil, err
	}
	groups := protect(o, c, "podgroupprotection", podGroupProtection, s.ofPodGroups())
	if !composed {
		return groups, nil
	}
	return reconcile.Together(groups,
		protect(o, c, "compositepodgroupprotection", compositeProtection, s.ofComposites())), nil
}

// protect returns the controller of the groups of one kind, which has a queue of its own.
func protect[G group](o *Options, c manager.Context, queue string, protection plan.Protection,
	k *caches[G]) reconcile.Part {
	p := planner{protection: protection}
	watches := []reconcile.Watch{k.groups.Watch(enqueuedByGroup, informers.WithResync)}
	for _, m := range k.members {
		p.members = append(p.members, m.member)
		watches = append(watches, m.watch(k.enqueuedBy(m.member)))
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot[G], struct{}, memory]{
		Name:      queue,
		Workers:   int(o.Workers),
		Explained: []string{k.groups.Kind().Kind},
		Watches:   watches,
		Observe:   k.observe,
		Prove:     k.prove,
		Plan:      reconcile.PlanOnly(planFinalizer[G](p)),
		Remember:  reconcile.Always[snapshot[G], struct{}, memory], // it is what was seen
		Owner:     func(s snapshot[G]) plan.Object { return s.Group },
		Subject:   func(s snapshot[G]) types.UID { return s.Group.GetUID() },
	})
}

// stores are the caches of all kinds, with indexes of members by the groups that they keep.
type stores struct {
	pods       informers.IndexedStore[*pod]
	groups     informers.IndexedStore[*podGroup]
	composites informers.IndexedStore[*compositePodGroup] // only where there may be any
}

// newStores asks for the caches. Groups are kept whole, because an update has the whole object.
func newStores(f *informers.Factory, composed bool) (s stores, err error) {
	const index = "kept group"
	var errs [3]error
	s.pods, errs[0] = informers.IndexedPods(f, index, keys[*pod](pods()),
		informers.PodFields{Paths: []string{"status.phase", "spec.schedulingGroup.podGroupName"}})
	s.groups, errs[1] = informers.IndexedObjects(f, index, keys[*podGroup](podGroups()))
	if composed {
		s.composites, errs[2] = informers.IndexedObjects(f, index, keys[*compositePodGroup](composites()))
	}
	return s, errors.Join(errs[:]...)
}

// ofPodGroups is what the controller of PodGroups reads.
func (s stores) ofPodGroups() *caches[*podGroup] {
	return &caches[*podGroup]{s.groups.Store, []cachedMembers{membersIn(s.pods, pods())}}
}

// ofComposites is what the controller of CompositePodGroups reads.
func (s stores) ofComposites() *caches[*compositePodGroup] {
	return &caches[*compositePodGroup]{s.composites.Store,
		[]cachedMembers{membersIn(s.groups, podGroups()), membersIn(s.composites, composites())}}
}
