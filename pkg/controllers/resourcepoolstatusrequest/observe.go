package resourcepoolstatusrequest

import (
	"context"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	requests informers.IndexedStore[*request]                  // those that are not answered, by driver
	slices   informers.IndexedStore[*resourcev1.ResourceSlice] // by driver
	claims   informers.IndexedStore[*resourcev1.ResourceClaim] // by the drivers of their devices
	rules    informers.Store[*resourcev1.DeviceTaintRule]
}

// unansweredOf is the index of requests.
func unansweredOf(r *request) []string {
	if r.Status != nil {
		return nil
	}
	return []string{r.Spec.Driver}
}

// driverOf is the index of slices.
func driverOf(s *resourcev1.ResourceSlice) []string { return []string{s.Spec.Driver} }

// driversOf is the index of claims.
func driversOf(c *resourcev1.ResourceClaim) (drivers []string) {
	if c.Status.Allocation == nil {
		return nil
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if !slices.Contains(drivers, r.Driver) {
			drivers = append(drivers, r.Driver)
		}
	}
	return drivers
}

// memory is what is remembered of a request.
type memory struct {
	Since time.Time // when it was first seen
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds a request, and of one that is not answered all that it asks about, and whether the caches show a state
// that is later than the request.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	s := &o.Snapshot
	if s.Request = k.requests.Get("", r.Key.Name); s.Request == nil {
		return o, nil
	}
	if o.Exists = true; s.Request.Status != nil {
		return o, nil
	}
	if o.Memory = r.Memory; o.Memory == nil {
		o.Memory = &memory{Since: r.Now}
	}
	s.Since, s.WithoutRules = o.Memory.Since, k.rules.Missing()
	// The versions first: what is found after that is at least as new.
	version, driver := s.Request.ResourceVersion, s.Request.Spec.Driver
	reached := []bool{k.slices.Reached(version), k.claims.Reached(version), k.rules.Reached(version)}
	for i, ref := range s.lists() {
		if !reached[i] {
			s.Late = append(s.Late, ref)
		}
	}
	s.findSlices(k.slices.By(driver))
	s.findUses(k.claims.By(driver))
	if !s.WithoutRules { // the cache still has those of when the API was served
		s.findRules(slices.Collect(k.rules.All()))
	}
	return o, nil
}

// prove finds in live lists what the caches are late with.
func (k *caches) prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	for len(s.Late) > 0 {
		list, ok := proof.Read[s.Late[0]]
		if !ok || list.Err != nil {
			return o
		}
		switch s.Late[0].Kind.Kind {
		case kindSlice:
			s.findSlices(plan.Typed[*resourcev1.ResourceSlice](list.Objects))
		case kindClaim:
			s.findUses(plan.Typed[*resourcev1.ResourceClaim](list.Objects))
		case kindRule:
			s.findRules(plan.Typed[*resourcev1.DeviceTaintRule](list.Objects))
		}
		s.Late = s.Late[1:]
	}
	return o
}

// enqueuedBySlice returns the requests that are not answered and ask for the driver of a slice: it may complete a pool.
func (k *caches) enqueuedBySlice(before, after plan.Object) (keys []plan.Key) {
	for _, o := range []plan.Object{before, after} {
		s, _ := o.(*resourcev1.ResourceSlice)
		if s == nil {
			continue
		}
		for _, r := range k.requests.By(s.Spec.Driver) {
			if key := plan.KeyOf(r); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
