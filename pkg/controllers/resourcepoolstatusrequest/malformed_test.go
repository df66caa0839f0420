package resourcepoolstatusrequest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and no number is below zero.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		r, slice, claim, rule := newRequest(), &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaim{}, &resourcev1.DeviceTaintRule{}
		for _, o := range []plan.Object{r, slice, claim, rule} {
			fill(o)
		}
		r.Namespace, r.Name = "", "ask"
		if rapid.Bool().Draw(t, "to the point") {
			r.Status, r.Spec.PoolName, slice.Spec.Driver = nil, nil, r.Spec.Driver
			if a := claim.Status.Allocation; a != nil {
				for i := range a.Devices.Results {
					a.Devices.Results[i].Driver, a.Devices.Results[i].Pool = r.Spec.Driver, slice.Spec.Pool.Name
				}
			}
		}
		k := cachesWith(t, r, slice, claim, rule)
		k.enqueuedBySlice(nil, slice)
		k.enqueuedBySlice(slice, nil)
		w := &world{caches: k, request: r, live: []plan.Object{slice, claim, rule}}
		o := w.observed(t, time.Hour)
		o.Snapshot.Late = nil
		before := []plan.Object{r.DeepCopy(), slice.DeepCopy(), claim.DeepCopy(), rule.DeepCopy()}
		now := epoch.Add(time.Hour)
		d, p := planAnswer(now, o.Snapshot)
		reportAnswer(now, o.Snapshot, d, plan.Outcome{})
		if diff := cmp.Diff(before, []plan.Object{r, slice, claim, rule}); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
		if p.Why == "" {
			t.Error("the plan says nothing")
		}
		if d == nil {
			return
		}
		for _, one := range d.Pools {
			for _, n := range []*int32{one.TotalDevices, one.AllocatedDevices, one.UnavailableDevices, one.AvailableDevices} {
				if n != nil && *n < 0 {
					t.Errorf("%s", text(d))
				}
			}
		}
	})
}
