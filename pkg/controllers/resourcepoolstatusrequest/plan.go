package resourcepoolstatusrequest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	answeredFor  = time.Hour      // requests that are answered are kept (RPS-10)
	pendingFor   = 24 * time.Hour // and others
	patience     = time.Second    // for which caches may take to show a state that is later than a request
	lookAgain    = 250 * time.Millisecond
	incompletely = 30 * time.Second // for which a pool may lack slices before the answer says so (RPS-8)
)

type (
	request = resourcev1alpha3.ResourcePoolStatusRequest
	status  = resourcev1alpha3.ResourcePoolStatusRequestStatus
)

// The kinds that an answer is made of.
const (
	kindSlice = "ResourceSlice"
	kindClaim = "ResourceClaim"
	kindRule  = "DeviceTaintRule"
)

// snapshot is a request and, if it is not answered, what it asks about. Observe fills it from the caches, prove from
// live lists, and planAnswer reads it. The objects belong to shared caches.
type snapshot struct {
	Request *request
	Since   time.Time // when the request was first seen

	Slices       []*resourcev1.ResourceSlice // of the pools, by name
	Uses         map[string][]use            // of devices of the driver, by pool
	Rules        []*resourcev1.DeviceTaintRule
	WithoutRules bool // the API server has no DeviceTaintRules

	// Late are the lists of what the caches may show an older state of than the request; empty if there is none.
	Late []plan.Ref
}

// use is the use of a device by a claim. Administrators look at devices without using them (RPS-4).
type use struct {
	Device   string
	Consumed map[resourcev1.QualifiedName]resource.Quantity
}

// decision is the answer to a request; nil if there is none yet, or was one before.
type decision = *status

// findSlices puts into the snapshot those of all slices that concern the request.
func (s *snapshot) findSlices(found []*resourcev1.ResourceSlice) {
	s.Slices = nil
	for _, one := range found {
		if one.Spec.Driver == s.Request.Spec.Driver && s.asksFor(one.Spec.Pool.Name) {
			s.Slices = append(s.Slices, one)
		}
	}
	slices.SortFunc(s.Slices, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// findUses does so with what claims have.
func (s *snapshot) findUses(claims []*resourcev1.ResourceClaim) {
	s.Uses = map[string][]use{}
	for _, c := range claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.Driver == s.Request.Spec.Driver && s.asksFor(r.Pool) && !ptr.Deref(r.AdminAccess, false) {
				s.Uses[r.Pool] = append(s.Uses[r.Pool], use{r.Device, r.ConsumedCapacity})
			}
		}
	}
}

// findRules does so with rules.
func (s *snapshot) findRules(rules []*resourcev1.DeviceTaintRule) {
	s.Rules = nil
	for _, r := range rules {
		if sel := r.Spec.DeviceSelector; sel != nil && matches(sel.Driver, s.Request.Spec.Driver) {
			s.Rules = append(s.Rules, r)
		}
	}
}

// asksFor reports whether the request asks for the pool.
func (s *snapshot) asksFor(pool string) bool { return matches(s.Request.Spec.PoolName, pool) }

// matches reports whether a name is the wanted one, or any is wanted.
func matches(wanted *string, name string) bool { return wanted == nil || *wanted == name }

// lists names all that a request asks about: slices, claims and rules in this order. The lists of others that began
// after the request was first seen will do.
func (s *snapshot) lists() []plan.Ref {
	all := func(kind string) plan.Ref {
		return plan.Ref{Kind: resourcev1.SchemeGroupVersion.WithKind(kind), All: true, Shared: true}
	}
	found := all(kindSlice)
	found.Fields = fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, s.Request.Spec.Driver).String()
	refs := []plan.Ref{found, all(kindClaim), all(kindRule)}
	if s.WithoutRules {
		return refs[:2]
	}
	return refs
}

// planAnswer works out the answer to a request, once, and deletes the request when its time is over.
func planAnswer(now time.Time, s snapshot) (decision, plan.Plan) {
	if left := expiry(s.Request).Sub(now); left <= 0 {
		const why = "the time is over for which requests are kept"
		return nil, plan.Plan{Why: "delete the request: " + why, Steps: []plan.Step{
			plan.Delete{Objects: []plan.Object{s.Request}, CheckVersion: true, Why: why},
		}}
	} else if s.Request.Status != nil {
		return nil, plan.Plan{Why: "the request is answered, and is deleted later", Requeue: left}
	}
	if len(s.Late) > 0 {
		if now.Before(s.Since.Add(patience)) {
			return nil, plan.Plan{Why: "wait until the caches show a state that is later than the request",
				Requeue: lookAgain}
		}
		return nil, plan.Plan{Why: "wait for live lists of what the request asks about", Proof: s.Late}
	}
	pools := poolsOf(s.Slices)
	if left := s.Since.Add(incompletely).Sub(now); left > 0 {
		for _, p := range pools {
			if why := p.incomplete(); why != "" {
				return nil, plan.Plan{Why: "wait for the slices of a pool: " + why, Requeue: left}
			}
		}
	}
	d := &status{PoolCount: ptr.To(int32(len(pools)))}
	wrong := 0
	for _, p := range pools[:min(len(pools), limit(s.Request))] {
		found := p.status(s)
		if d.Pools = append(d.Pools, found); found.ValidationError != nil {
			wrong++
		}
	}
	message := fmt.Sprintf("Calculated status for %d pools", len(d.Pools))
	if wrong > 0 {
		message += fmt.Sprintf(" (%d incomplete)", wrong)
	}
	d.Conditions = []metav1.Condition{{Type: resourcev1alpha3.ResourcePoolStatusRequestConditionComplete,
		Status: metav1.ConditionTrue, Reason: "CalculationComplete", Message: message,
		LastTransitionTime: metav1.NewTime(now)}}
	return d, plan.Plan{Why: fmt.Sprintf("answer the request: %d pools", len(pools))}
}

// limit is how many pools an answer may have.
func limit(r *request) int {
	return int(min(max(ptr.Deref(r.Spec.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault), 0),
		resourcev1alpha3.ResourcePoolStatusRequestLimitMax))
}

// expiry is when a request is to be deleted (RPS-10).
func expiry(r *request) time.Time {
	if r.Status == nil {
		return r.CreationTimestamp.Add(pendingFor)
	}
	for _, t := range []string{resourcev1alpha3.ResourcePoolStatusRequestConditionComplete,
		resourcev1alpha3.ResourcePoolStatusRequestConditionFailed} {
		if c := meta.FindStatusCondition(r.Status.Conditions, t); c != nil {
			return c.LastTransitionTime.Add(answeredFor)
		}
	}
	return r.CreationTimestamp.Add(pendingFor) // somebody else has answered it
}
