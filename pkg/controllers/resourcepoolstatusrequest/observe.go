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
	s.Proved = k.slices.Reached(version) && k.claims.Reached(version) && (s.WithoutRules || k.rules.Reached(version))
	s.find(k.slices.By(driver), k.claims.By(driver), slices.Collect(k.rules.All()))
	return o, nil
}

// prove finds what a request asks about in live lists.
func (k *caches) prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	lists := make([][]plan.Object, 3)
	for i, ref := range s.lists() {
		list, ok := proof.Read[ref]
		if !ok || list.Err != nil {
			return o
		}
		lists[i] = list.Objects
	}
	s.Proved = true
	s.find(plan.Typed[*resourcev1.ResourceSlice](lists[0]), plan.Typed[*resourcev1.ResourceClaim](lists[1]),
		plan.Typed[*resourcev1.DeviceTaintRule](lists[2]))
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
