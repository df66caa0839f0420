package resourcepoolstatusrequest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// world is a request, with slices, claims and rules: in the caches, on the server, or on both.
type world struct {
	*caches
	request *request
	cached  []plan.Object
	live    []plan.Object
}

func draw(t *rapid.T) *world {
	w := &world{request: newRequest()}
	if rapid.Bool().Draw(t, "one") {
		w.request.Spec.PoolName = ptr.To("a")
	}
	w.request.Spec.Limit = ptr.To(rapid.Int32Range(1, 3).Draw(t, "limit"))
	w.caches = cachesWith(t, w.request)
	name := rapid.SampledFrom([]string{"0", "1", "2", "gone"})
	pool := rapid.SampledFrom([]string{"a", "b"})
	for i := range rapid.IntRange(0, 4).Draw(t, "slices") {
		s := newSlice(fmt.Sprint("slice-", i), pool.Draw(t, "pool"), of(rapid.Int64Range(1, 2).Draw(t, "generation"),
			rapid.Int64Range(1, 2).Draw(t, "count")), counters("g", "memory", "4"))
		if rapid.Bool().Draw(t, "grouped") {
			partitionedBy(profile)(s)
		}
		for n := range rapid.IntRange(0, 3).Draw(t, "devices") {
			has(fmt.Sprintf("%d", n), rapid.SliceOfN(rapid.SampledFrom([]deviceEdit{tainted(noSchedule), attribute("profile", "A"),
				costs("g", "memory", "2"), shared("bw=4")}), 0, 3).Draw(t, "device")...)(s)
		}
		w.add(t, s)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "claims") {
		w.add(t, newClaim(fmt.Sprint("claim-", i), pool.Draw(t, "pool"), name.Draw(t, "device"),
			rapid.SampledFrom([]resultEdit{admin, ofOther, consumes("bw", "1"), consumes(driver+"/bw", "5")}).Draw(t, "result")))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
		w.add(t, newRule(fmt.Sprint("rule-", i), rapid.SampledFrom([]string{"", "device=0", "pool=a device=1",
			"driver=other.example.com"}).Draw(t, "selector"), rapid.SampledFrom([]resourcev1.DeviceTaintEffect{noExecute, "None"}).Draw(t, "effect")))
	}
	return w
}

// add puts an object into a cache, on the server, or both.
func (w *world) add(t *rapid.T, o plan.Object) {
	knows := rapid.SampledFrom([]string{"both", "both", "cache", "server"}).Draw(t, "knows")
	if knows != "server" {
		w.cache(t, o)
		w.cached = append(w.cached, o)
	}
	if knows != "cache" {
		w.live = append(w.live, o)
	}
}

// observed is what is observed some time after the request was first seen.
func (w *world) observed(t interface{ Fatal(...any) }, after time.Duration) observation {
	o, err := w.observe(context.Background(), reconcile.Request[memory]{Key: plan.KeyOf(w.request), Now: epoch.Add(after),
		Memory: &memory{Since: epoch}})
	if err != nil || !o.Exists {
		t.Fatal(err)
	}
	return o
}

// lists answers what a plan asks for as a server does.
func (w *world) lists(refs []plan.Ref) reconcile.Proof {
	proof := reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{}}
	for _, ref := range refs {
		var r reconcile.Reading
		for _, o := range w.live {
			var kind string
			switch o.(type) {
			case *resourcev1.ResourceSlice:
				kind = "ResourceSlice"
			case *resourcev1.ResourceClaim:
				kind = "ResourceClaim"
			case *resourcev1.DeviceTaintRule:
				kind = "DeviceTaintRule"
			}
			if ref.Kind.Kind == kind {
				r.Objects = append(r.Objects, o)
			}
		}
		proof.Read[ref] = r
	}
	return proof
}

// The numbers of a pool add up, whatever there is, and each is what a simple count says of what the server has.
func TestNumbersAddUp(t *testing.T) { // RPS-2 to RPS-6
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		o := w.observed(t, time.Hour)
		_, p := planAnswer(epoch.Add(time.Hour), o.Snapshot)
		if len(p.Proof) == 0 { // no cache of a test has a version
			t.Fatal("nothing is asked for")
		}
		proof := w.lists(p.Proof)
		d, p := planAnswer(epoch.Add(time.Hour), w.prove(o, proof).Snapshot)
		if missing, err := proof.Lacks(p); err != nil || len(missing) > 0 || d == nil {
			t.Fatalf("the plan asks for more: %v, %v", missing, err)
		}
		for _, one := range d.Pools {
			if one.TotalDevices == nil {
				continue
			}
			total, used, tainted := w.counted(one.PoolName, one.Generation)
			if *one.TotalDevices != total || *one.AllocatedDevices != used || *one.UnavailableDevices != tainted ||
				*one.AvailableDevices != total-used-tainted || *one.AvailableDevices < 0 {
				t.Errorf("%d devices, %d used, %d tainted: %s", total, used, tainted, text(d))
			}
			for _, part := range one.PartitionSummary {
				if *part.Allocatable < 0 || *part.Allocatable > *part.Total {
					t.Errorf("%s", text(d))
				}
			}
			if s := one.ShareableSummary; s != nil {
				if *s.FullyAvailableDevices+*s.PartiallyAvailableDevices > total {
					t.Errorf("%s", text(d))
				}
				for _, c := range s.Capacity {
					if c.Available.Sign() < 0 || c.Available.Cmp(*c.Total) > 0 {
						t.Errorf("%s", text(d))
					}
				}
			}
		}
		if len(d.Pools) > int(*w.request.Spec.Limit) || int(*d.PoolCount) < len(d.Pools) {
			t.Errorf("%s", text(d))
		}
	})
}

// counted counts the devices of a pool on the server.
func (w *world) counted(pool string, generation int64) (total, used, tainted int32) {
	for _, o := range w.live {
		s, ok := o.(*resourcev1.ResourceSlice)
		if !ok || s.Spec.Pool.Name != pool || s.Spec.Pool.Generation != generation {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			// Of devices of one name, which there should not be, the last one has what claims have.
			total++
			switch {
			case w.isUsed(pool, d.Name) && w.last(pool, generation, d.Name) == d:
				used++
			case w.isTainted(pool, d):
				tainted++
			}
		}
	}
	return total, used, tainted
}

// last is the last device of a name in a pool.
func (w *world) last(pool string, generation int64, name string) (found *resourcev1.Device) {
	for _, o := range w.live {
		if s, ok := o.(*resourcev1.ResourceSlice); ok && s.Spec.Pool.Name == pool && s.Spec.Pool.Generation == generation {
			for i := range s.Spec.Devices {
				if s.Spec.Devices[i].Name == name {
					found = &s.Spec.Devices[i]
				}
			}
		}
	}
	return found
}

func (w *world) isUsed(pool, name string) bool {
	return slices.ContainsFunc(w.live, func(o plan.Object) bool {
		c, ok := o.(*resourcev1.ResourceClaim)
		if !ok {
			return false
		}
		r := c.Status.Allocation.Devices.Results[0]
		return r.Driver == driver && r.Pool == pool && r.Device == name && r.AdminAccess == nil
	})
}

func (w *world) isTainted(pool string, d *resourcev1.Device) bool {
	return len(d.Taints) > 0 || slices.ContainsFunc(w.live, func(o plan.Object) bool {
		r, ok := o.(*resourcev1.DeviceTaintRule)
		if !ok || r.Spec.Taint.Effect == "None" {
			return false
		}
		s := r.Spec.DeviceSelector
		return s.Driver == nil && (s.Pool == nil || *s.Pool == pool) && (s.Device == nil || *s.Device == d.Name)
	})
}

// In whatever order the caches have their objects, the answer is the same, and nothing that was observed is changed.
func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		s := w.observed(t, time.Hour).Snapshot
		s.Late = nil
		again := plantest.Restored(t, s)
		d, _ := planAnswer(epoch, s)
		for _, uses := range again.Uses {
			slices.Reverse(uses)
		}
		slices.Reverse(again.Rules)
		e, _ := planAnswer(epoch, again)
		if diff := cmp.Diff(text(d), text(e)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t).observed(t, rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "after")).Snapshot
		if rapid.Bool().Draw(t, "late") {
			s.Late = s.lists()
		}
		before := plantest.Restored(t, s)
		d, p := planAnswer(epoch.Add(time.Minute), s)
		e, again := planAnswer(epoch.Add(time.Minute), before)
		if again.Why != p.Why || again.Requeue != p.Requeue || !slices.Equal(again.Proof, p.Proof) || text(d) != text(e) {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
		if diff := cmp.Diff(before, plantest.Restored(t, s)); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}

// A slice that changes enqueues the requests for its driver that wait, and no others.
func TestSlicesEnqueue(t *testing.T) { // RPS-22
	k := cachesWith(t, newRequest(), newRequest(answered("Complete", 0), func(r *request) { r.Name = "old" }),
		newRequest(func(r *request) { r.Name, r.Spec.Driver = "other", "other.example.com" }))
	mine := newSlice("a", "p")
	other := newSlice("b", "p", func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "nobody" })
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          int
	}{
		{"a new one", nil, mine, 1}, {"one that changes", mine, mine, 1}, {"one that goes", mine, nil, 1},
		{"of another driver", nil, other, 0},
	} {
		if keys := k.enqueuedBySlice(c.before, c.after); len(keys) != c.want || c.want == 1 && keys[0].Name != "ask" {
			t.Errorf("%s: %v", c.name, keys)
		}
	}
}

// What is not cached changes nothing.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	project := func(t *rapid.T, o plan.Object) plan.Object {
		projected, err := kept.Project(o)
		if err != nil {
			t.Fatal(err)
		}
		return projected.(plan.Object)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		slice, claim, rule := newSlice("x", "a"), newClaim("x", "a", "0"), newRule("x", "", noExecute)
		if rapid.Bool().Draw(t, "anything") {
			for _, o := range []plan.Object{slice, claim, rule} {
				fill(o)
				o.SetManagedFields(nil) // which no cache has
			}
			slice.Spec.Driver, slice.Spec.Pool.Name = driver, "a"
			if a := claim.Status.Allocation; a != nil {
				for i := range a.Devices.Results {
					a.Devices.Results[i].Driver = driver
				}
			}
		}
		objects := append(slices.Clone(w.live), slice, claim, rule)
		var cached []plan.Object
		for _, o := range objects {
			cached = append(cached, project(t, o))
		}
		d, _ := planAnswer(epoch, seen(w.request, objects...))
		e, _ := planAnswer(epoch, seen(project(t, w.request).(*request), cached...))
		if diff := cmp.Diff(text(d), text(e)); diff != "" {
			t.Errorf("another answer: %s", diff)
		}
	})
}
