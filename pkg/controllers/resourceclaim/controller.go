package resourceclaim

import (
	"cmp"
	"errors"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// queue is the name of all queues in metrics.
const queue = "resource_claim"

// New returns the resourceclaim controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 50)
	return manager.Controller{
		Name:        "resourceclaim-controller",
		Alias:       "resource-claim-controller",
		Account:     "resource-claim-controller",
		EventSource: "resource_claim",
		Flags:       &o,
		Needs: []schema.GroupVersionResource{
			resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
			resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates"),
		},
		GatedUses: map[string][]schema.GroupVersionResource{claimsGate: groupAPIs()},
		Rights:    Rights,
		Init:      o.init,
	}
}

// init builds the controllers of pods and of PodGroups, which make claims, and that of claims, which releases them.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers, c.Enabled(claimsGate))
	if err != nil {
		return nil, err
	}
	k.workloads = c.Enabled(groupGate)
	own := newCollectors(k)
	c.RegisterMetrics(own.all()...)
	parts := []reconcile.Part{reconcile.New(c.Shared, c.Access, o.ofPods(k, own)),
		reconcile.New(c.Shared, c.Access, o.ofClaims(k))}
	if k.groups != nil {
		parts = append(parts, reconcile.New(c.Shared, c.Access, o.ofGroups(k, own)))
	}
	return reconcile.Together(parts...), nil
}

// making makes the claims of pods or of PodGroups.
type making = reconcile.Controller[snapshot, decision, memory]

// ofPods is the controller that makes the claims of pods.
func (o *Options) ofPods(k *caches, own collectors) making {
	c := making{
		Name:      queue,
		Workers:   int(o.Workers),
		Explained: []string{k.pods.Kind().Kind},
		Watches: []reconcile.Watch{
			k.pods.Watch(k.enqueuedByPod), k.claims.Watch(k.enqueuedByClaim), k.templates.Watch(k.enqueuedByTemplate),
		},
		Observe:  k.observe,
		Owner:    snapshot.owner,
		Subject:  func(s snapshot) types.UID { return s.owner().GetUID() },
		Live:     live,
		Plan:     planClaims,
		Prove:    k.prove,
		Report:   reportNames,
		Remember: reconcile.RememberOutcome(remember),
		Applied:  own.applied,
	}
	if k.groups != nil {
		c.Watches = append(c.Watches, k.groups.byClaim.Watch(k.podsByGroup))
	}
	return c
}

// ofGroups is the controller that makes the claims of PodGroups.
func (o *Options) ofGroups(k *caches, own collectors) making {
	c := o.ofPods(k, own)
	c.Name, c.QueueName, c.Explained = "resource_claim_podgroup", queue, []string{k.groups.byClaim.Kind().Kind}
	c.Watches = []reconcile.Watch{k.groups.byClaim.Watch(k.groupsByGroup), k.claims.Watch(k.groupsByClaim),
		k.templates.Watch(k.groupsByTemplate)}
	c.Observe = k.observeGroup
	return c
}

// ofClaims is the controller that releases claims.
func (o *Options) ofClaims(k *caches) reconcile.Controller[claimed, struct{}, struct{}] {
	c := reconcile.Controller[claimed, struct{}, struct{}]{
		Name:      "resource_claim_release",
		QueueName: queue,
		Workers:   int(o.Workers),
		Explained: []string{k.claims.Kind().Kind},
		Watches: []reconcile.Watch{
			k.claims.Watch(k.claimsByClaim, informers.WithResync),
			k.pods.Watch(k.claimsByPod, informers.WithNews), // a deletion that was seen need not be read live
		},
		Observe:          k.observeClaim,
		Owner:            func(s claimed) plan.Object { return s.Claim },
		SkipVerification: true, // the version is a precondition of each write
		Plan:             reconcile.PlanOnly(planRelease),
		Prove:            k.proveClaim,
	}
	if k.groups != nil {
		c.Watches = append(c.Watches, k.groups.byClaim.Watch(k.claimsByGroup, informers.WithNews))
	}
	return c
}

// newCaches asks for the caches, with those of PodGroups where these may have claims. Pods have indexes by the claims
// and the templates that they name.
func newCaches(f *informers.Factory, grouped bool) (*caches, error) {
	fields := informers.PodFields{Paths: []string{
		"status.phase", "spec.nodeName", "spec.resourceClaims", "spec.schedulingGroup.podGroupName",
		"status.resourceClaimStatuses", "status.extendedResourceClaimStatus.resourceClaimName",
	}}
	k := &caches{}
	var errs [5]error
	k.pods, errs[0] = informers.IndexedPods(f, "resource claim", claimsUsed, fields)
	k.byTemplate, errs[1] = informers.IndexedPods(f, "resource claim template", templatesUsed, fields)
	k.claims, errs[2] = informers.OwnedObjects[*resourcev1.ResourceClaim](f,
		"metadata.annotations["+resourcev1.PodResourceClaimAnnotation+"]",
		"metadata.annotations["+resourcev1.ExtendedResourceClaimAnnotation+"]",
		"spec.devices.requests.exactly.adminAccess", "status.reservedFor", "status.allocation.allocationTimestamp",
	)
	k.templates, errs[3] = informers.Objects[*resourcev1.ResourceClaimTemplate](f)
	if grouped {
		k.groups, errs[4] = newGroupCaches(f, fields)
	}
	return k, errors.Join(errs[:]...)
}
