package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

type poolRequest = resourcev1alpha3.ResourcePoolStatusRequest

func poolStatusEntry() Entry {
	return Entry{
		Controller: "resourcepoolstatusrequest-controller",
		Operations: map[string]Operation{
			// NAME devices= slices= missing= generation= tainted=: a pool of that generation, of which so many slices are not published,
			// and so many devices are tainted; do=complete publishes the others
			"pool":      poolOfDriver,
			"poolclaim": poolClaim, // NAME pool= device= admin=true: a claim that has a device; do=delete
			"pooltaint": poolTaint, // NAME pool= device=: a DeviceTaintRule; do=delete
			"poolask":   poolAsk,   // NAME pool=: a ResourcePoolStatusRequest, for one pool or for all; do=delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			devices, parts, missing := 2+g.IntN(3), 1+g.IntN(2), 0
			pool := fmt.Sprintf("pool-%s-%d", app, parts)
			if parts == 2 && g.IntN(3) == 0 {
				missing = 1
			}
			g.Add(at, "pool %s devices=%d slices=%d missing=%d generation=1 tainted=%d", pool, devices, parts, missing, g.IntN(2))
			for i := range g.IntN(4) {
				g.Add(at+g.Early(), "poolclaim pool-%s-%d pool=%s device=%d admin=%t", app, i, pool, g.IntN(devices), g.IntN(4) == 0)
			}
			if g.IntN(3) == 0 {
				g.Add(at+g.Early(), "pooltaint pool-%s pool=%s device=%d", app, pool, g.IntN(devices))
			}
			if g.IntN(3) == 0 { // what the controller sees of claims is late
				g.Add(at, "fault m* delay resourceclaims %ds for=40s", 1+g.IntN(5))
			}
			asks := at + g.Early() + time.Second
			g.Add(asks, "poolask %s%s", app, workload.Pick(g, "", " pool="+pool))
			if missing > 0 && g.IntN(2) == 0 {
				g.Add(asks+g.Early(), "pool %s devices=%d slices=%d generation=1 do=complete", pool, devices, parts)
			}
			if g.IntN(2) == 0 { // the driver renews the pool
				g.Add(soon, "pool %s devices=%d slices=1 generation=2", pool, 1+g.IntN(4))
			}
			g.Add(soon+g.Early(), "poolclaim pool-%s-0 do=delete", app)
			g.Add(soon+g.While(), "poolask %s-later%s", app, workload.Pick(g, "", " pool="+pool))
		}}},
		Settled: poolRequestsSettled,
		Scenarios: []Scenario{{Name: "requests for the status of pools are answered", Play: func(u *User) {
			u.publishPool("pool-0", 3)
			u.Try("a claim has a device", func() error { return ignoreExists(u.claimDevice("taken", "pool-0", "d1", false)) })
			u.askForPools(3)
		}}},
		Malformed: map[string]string{
			"resourcepoolstatusrequests/absurd": `{"apiVersion":"resource.k8s.io/v1alpha3","kind":"ResourcePoolStatusRequest","metadata":${META},
				"spec":{"driver":"/","poolName":"","limit":-1,"defaultPartitionTypeAttribute":"/"}}`,
			"resourceslices/odd-pool": `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":${META},"spec":{"driver":"/","pool":{"name":"",
				"generation":-1,"resourceSliceCount":-1},"devices":[{"name":"","consumesCounters":[{"counterSet":"","counters":{"":{"value":"-1"}}}],
				"allowMultipleAllocations":true,"capacity":{"":{"value":"-1"}}},{"name":""}],"sharedCounters":[{"name":""}],"partitionTypeAttribute":"/"}}`,
		},
		Mutants: poolStatusMutants,
		Budgets: []Budget{{
			Name: "20 requests for the status of pools", Floor: floor.Writes{Status: 20},
			Prepare: func(u *User) { u.publishPool("pool-0", 4) },
			Do:      func(u *User) { u.askForPools(20) },
		}},
	}
}

// poolDriver is the driver of the user's pools. Each user of a cluster has another one.
func (u *User) poolDriver() string {
	if u.Alone {
		return "pools.example.com"
	}
	return u.Namespace + ".example.com"
}

// newPoolSlice is one of the slices of a pool, with every one of so many of its devices that is its turn.
func (u *User) newPoolSlice(pool string, generation, part, parts, devices, tainted int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: u.unique(fmt.Sprintf("%s-%d-%d", pool, generation, part))},
		Spec: resourcev1.ResourceSliceSpec{Driver: u.poolDriver(), AllNodes: ptr.To(true),
			Pool: resourcev1.ResourcePool{Name: pool, Generation: int64(generation), ResourceSliceCount: int64(parts)}},
	}
	for i := part; i < devices; i += parts {
		d := resourcev1.Device{Name: fmt.Sprint("d", i)}
		if i < tainted {
			d.Taints = []resourcev1.DeviceTaint{{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	u.mark(s)
	return s
}

// poolOfDriver publishes slices of a pool that are not there.
func poolOfDriver(u *User, l script.Line) error {
	number := func(name string) int { n, _ := l.Int(name); return n }
	parts := number("slices")
	for part := range parts - number("missing") {
		s := u.newPoolSlice(l.Arg(0), number("generation"), part, parts, number("devices"), number("tainted"))
		if err := ignoreExists(create(u, s)); err != nil {
			return err
		}
	}
	return nil
}

// claimDevice makes a claim that has a device, as a scheduler gives it, for somebody who is no pod.
func (u *User) claimDevice(name, pool, device string, admin bool) error {
	if err := create(u, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: deviceRequests()}); err != nil {
		return err
	}
	return edit(u, name, func(c *resourcev1.ResourceClaim) {
		r := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: u.poolDriver(), Pool: pool, Device: device}
		if admin {
			r.AdminAccess = &admin
		}
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{r}}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "consumers", Name: name,
			UID: c.UID}}
	}, "status")
}

func poolClaim(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*resourcev1.ResourceClaim](u, l.Arg(0))
	}
	pool, _ := l.Get("pool")
	device, _ := l.Get("device")
	return u.claimDevice(l.Arg(0), pool, "d"+device, says(l, "admin"))
}

func poolTaint(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*resourcev1.DeviceTaintRule](u, name)
	}
	pool, _ := l.Get("pool")
	device, _ := l.Get("device")
	r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: ptr.To(u.poolDriver()), Pool: &pool, Device: ptr.To("d" + device)},
		Taint:          resourcev1.DeviceTaint{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoSchedule},
	}}
	u.mark(r)
	return create(u, r)
}

// newPoolRequest asks for one pool, or for all if none is named.
func (u *User) newPoolRequest(name, pool string) *poolRequest {
	r := &poolRequest{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)},
		Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: u.poolDriver()}}
	if pool != "" {
		r.Spec.PoolName = &pool
	}
	u.mark(r)
	return r
}

func poolAsk(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*poolRequest](u, u.unique(l.Arg(0)))
	}
	pool, _ := l.Get("pool")
	return create(u, u.newPoolRequest(l.Arg(0), pool))
}

// publishPool publishes a pool of one slice.
func (u *User) publishPool(pool string, devices int) {
	u.Helper()
	u.Create(u.newPoolSlice(pool, 1, 0, 1, devices, 0))
}

// askForPools makes requests, and waits until they are answered.
func (u *User) askForPools(n int) {
	u.Helper()
	u.Each(n, func(i int) error {
		u.Create(u.newPoolRequest(fmt.Sprint("ask-", i), ""))
		return nil
	})
	for i := range n {
		Await(u, u.unique(fmt.Sprint("ask-", i)), func(r *poolRequest) error { return unless(r.Status != nil, "it is not answered") })
	}
}

// poolRequestsSettled says which requests are not answered, and which answers are not what was so. Those are judged for which nothing of
// the driver has changed from the request to the answer.
func poolRequestsSettled(s *View) (wrong []string) {
	for _, r := range subjects[*poolRequest](s) {
		if r.Status == nil && r.DeletionTimestamp == nil { // RPS-1, RPS-22
			wrong = append(wrong, fmt.Sprintf("the request %s is not answered", r.Name))
		}
	}
	made := map[string]uint64{}
	for _, e := range s.Changes("resourcepoolstatusrequests") {
		r, uid := e.Object.(*poolRequest), string(e.Object.GetUID())
		if e.Before == nil {
			made[uid] = e.Version
		}
		if !e.Managed || e.Deleted || r.Status == nil || e.Before.(*poolRequest).Status != nil || poolsChanged(s, r, made[uid], e.Version) {
			continue
		}
		s.Looked++
		if got, want := saidOfPools(r), soOfPools(s, r, e.Version); got != want { // RPS-2 to RPS-6, RPS-20, RPS-21
			wrong = append(wrong, fmt.Sprintf("the answer to %s at version %d is %q, and so was %q", r.Name, e.Version, got, want))
		}
	}
	return wrong
}

// poolResources are what answers are about.
var poolResources = []string{"resourceslices", "resourceclaims", "devicetaintrules"}

// poolsChanged reports whether something of the driver has changed between two versions.
func poolsChanged(s *View, r *poolRequest, after, before uint64) bool {
	for _, resource := range poolResources {
		for _, c := range s.Changes(resource) {
			if c.Version > after && c.Version < before && (isOfDriver(c.Object, r) || c.Before != nil && isOfDriver(c.Before, r)) {
				return true
			}
		}
	}
	return false
}

// isOfDriver reports whether an object has to do with the driver that a request asks for.
func isOfDriver(o Object, r *poolRequest) bool {
	switch o := o.(type) {
	case *resourcev1.ResourceSlice:
		return o.Spec.Driver == r.Spec.Driver
	case *resourcev1.ResourceClaim:
		return o.Status.Allocation != nil && o.Status.Allocation.Devices.Results[0].Driver == r.Spec.Driver
	case *resourcev1.DeviceTaintRule:
		return true
	}
	return false
}

// saidOfPools is what an answer says.
func saidOfPools(r *poolRequest) string {
	pools := make([]string, 0, len(r.Status.Pools))
	for _, p := range r.Status.Pools {
		text := fmt.Sprintf("%s at %d: ", p.PoolName, p.Generation)
		if p.ValidationError != nil && p.TotalDevices == nil {
			text += "incomplete"
		} else {
			text += fmt.Sprintf("%d devices, %d allocated, %d unavailable, %d available", ptr.Deref(p.TotalDevices, -1),
				ptr.Deref(p.AllocatedDevices, -1), ptr.Deref(p.UnavailableDevices, -1), ptr.Deref(p.AvailableDevices, -1))
		}
		pools = append(pools, text)
	}
	return fmt.Sprintf("%d: %s", ptr.Deref(r.Status.PoolCount, -1), strings.Join(pools, "; "))
}

// soOfPools is what an answer should say that was given at a version.
func soOfPools(s *View, r *poolRequest, version uint64) string {
	latest := map[string]int64{}
	slicesOf := map[string][]*resourcev1.ResourceSlice{}
	for _, o := range s.past("resourceslices", version) {
		one := o.(*resourcev1.ResourceSlice)
		pool := one.Spec.Pool
		if !isOfDriver(one, r) || r.Spec.PoolName != nil && *r.Spec.PoolName != pool.Name || pool.Generation < latest[pool.Name] {
			continue
		}
		if pool.Generation > latest[pool.Name] {
			latest[pool.Name], slicesOf[pool.Name] = pool.Generation, nil
		}
		slicesOf[pool.Name] = append(slicesOf[pool.Name], one)
	}
	var pools []string
	for name, published := range slicesOf {
		text := fmt.Sprintf("%s at %d: incomplete", name, latest[name])
		if int64(len(published)) == published[0].Spec.Pool.ResourceSliceCount {
			total, used, broken := 0, 0, 0
			for _, one := range published {
				for _, d := range one.Spec.Devices {
					total++
					switch {
					case hasPoolDevice(s, r, version, name, d.Name):
						used++
					case len(d.Taints) > 0 || rulesOut(s, r, version, name, d.Name):
						broken++
					}
				}
			}
			text = fmt.Sprintf("%s at %d: %d devices, %d allocated, %d unavailable, %d available", name, latest[name], total, used, broken,
				total-used-broken)
		}
		pools = append(pools, text)
	}
	slices.Sort(pools)
	return fmt.Sprintf("%d: %s", len(pools), strings.Join(pools, "; "))
}

// hasPoolDevice reports whether a claim has a device, and not for an administrator.
func hasPoolDevice(s *View, r *poolRequest, version uint64, pool, device string) bool {
	return slices.ContainsFunc(s.past("resourceclaims", version), func(o Object) bool {
		if !isOfDriver(o, r) {
			return false
		}
		got := o.(*resourcev1.ResourceClaim).Status.Allocation.Devices.Results[0]
		return got.Pool == pool && got.Device == device && got.AdminAccess == nil
	})
}

// rulesOut reports whether a rule taints a device.
func rulesOut(s *View, r *poolRequest, version uint64, pool, device string) bool {
	is := func(wanted *string, name string) bool { return wanted == nil || *wanted == name }
	return slices.ContainsFunc(s.past("devicetaintrules", version), func(o Object) bool {
		rule := o.(*resourcev1.DeviceTaintRule).Spec
		sel := rule.DeviceSelector
		return sel != nil && rule.Taint.Effect != resourcev1.DeviceTaintEffectNone && is(sel.Driver, r.Spec.Driver) &&
			is(sel.Pool, pool) && is(sel.Device, device)
	})
}

const (
	poolStatusFolder = "pkg/controllers/resourcepoolstatusrequest/"
	askedPool        = withoutElection + `
			at 5s   pool p devices=3 slices=1 generation=1 tainted=1
			at 6s   poolclaim one pool=p device=1
			at 7s   poolclaim two pool=p device=1
			at 8s   poolclaim boss pool=p device=2 admin=true`
	asked = "\n\t\t\tat 20s  poolask a"
)

var poolStatusMutants = []Mutant{
	{
		Name:   "a device counts as often as claims have it",
		Edits:  []Edit{{poolStatusFolder + "plan_pools.go", "allocated++", "allocated += len(d.uses)"}},
		Script: askedPool + asked,
		Oracle: SettledOracle,
	},
	{
		Name: "access of administrators counts as use",
		Edits: []Edit{{poolStatusFolder + "plan.go", "!ptr.Deref(r.AdminAccess, false) {",
			"(r.AdminAccess == nil || *r.AdminAccess) {"}},
		Script: askedPool + asked,
		Oracle: SettledOracle,
	},
	{
		Name:   "the first generation of a pool counts",
		Edits:  []Edit{{poolStatusFolder + "plan_pools.go", "p == nil || p.generation < of.Generation", "p == nil"}},
		Script: askedPool + "\n\t\t\tat 10s  pool p devices=1 slices=1 generation=2" + asked,
		Oracle: SettledOracle,
	},
	{
		Name: "taints by rules do not count",
		Edits: []Edit{{poolStatusFolder + "plan_pools.go", "!keepsAway(r.Spec.Taint.Effect) || !matches(sel.Pool, p.name)",
			"!keepsAway(r.Spec.Taint.Effect) || !matches(sel.Pool, p.driver)"}},
		Script: askedPool + "\n\t\t\tat 10s  pooltaint x pool=p device=2" + asked,
		Oracle: SettledOracle,
	},
	{
		Name:   "an answer on the word of a cache that is older than the request",
		Edits:  []Edit{{poolStatusFolder + "plan.go", "if len(s.Late) > 0 {", "if len(s.Late) > 0 && s.Since.IsZero() {"}},
		Script: askedPool + "\n\t\t\tat 15s  fault m0 freeze resourceclaims for=60s\n\t\t\tat 17s  poolclaim late pool=p device=0" + asked,
		Oracle: SettledOracle,
	},
	{
		Name: "a request for the driver of an incomplete pool is not answered",
		Edits: []Edit{{poolStatusFolder + "plan.go", "Add(incompletely).Sub(now); left > 0 {",
			"Add(incompletely).Sub(now); left != 0 {"}},
		Script: withoutElection + "\n\t\t\tat 5s   pool p devices=3 slices=2 missing=1 generation=1" + asked,
		Oracle: SettledOracle,
	},
}
