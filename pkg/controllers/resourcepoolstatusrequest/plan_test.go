package resourcepoolstatusrequest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	noSchedule, noExecute = resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute
	profile               = driver + "/profile"
)

func all(objects ...plan.Object) []plan.Object { return objects }

// seen is what is known of a request when the caches are late enough, and no slice is waited for any more.
func seen(r *request, objects ...plan.Object) snapshot {
	s := snapshot{Request: r, Since: epoch.Add(-incompletely)}
	var found []*resourcev1.ResourceSlice
	var claims []*resourcev1.ResourceClaim
	var rules []*resourcev1.DeviceTaintRule
	for _, o := range objects {
		switch o := o.(type) {
		case *resourcev1.ResourceSlice:
			found = append(found, o)
		case *resourcev1.ResourceClaim:
			claims = append(claims, o)
		case *resourcev1.DeviceTaintRule:
			rules = append(rules, o)
		}
	}
	s.findSlices(found)
	s.findUses(claims)
	s.findRules(rules)
	return s
}

// gpu is a device with partitions: one whole, or two halves.
func gpu(edits ...sliceEdit) *resourcev1.ResourceSlice {
	s := newSlice("gpu", "p", counters("gpu-0", "memory", "80Gi"), partitionedBy(profile),
		has("full", attribute("profile", "Full"), costs("gpu-0", "memory", "80Gi")),
		has("half-1", attribute(profile, "Half"), costs("gpu-0", "memory", "40Gi")),
		has("half-2", attribute("profile", "Half"), costs("gpu-0", "memory", "40Gi")))
	for _, e := range edits {
		e(s)
	}
	return s
}

// many is a slice with devices of so many types of partitions, or with so many capacities.
func many(n int, edit func(i int) []deviceEdit) *resourcev1.ResourceSlice {
	s := newSlice("many", "p", counters("gpu-0", "memory", "80Gi"), partitionedBy(profile))
	for i := range n {
		has(fmt.Sprint("d", i), edit(i)...)(s)
	}
	return s
}

// A row is a sentence: a request, what there is, and the answer.
func TestAnswers(t *testing.T) {
	const p = "1 pools; Calculated status for 1 pools\np 1 on node: 1 slices, "
	const wrong = "1 pools; Calculated status for 1 pools (1 incomplete)\np 1 on node: 1 slices, "
	for _, c := range []struct {
		name    string
		request *request
		there   []plan.Object
		want    string
	}{
		{"RPS-2 a driver without pools", newRequest(), all(newSlice("a", "p", func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "x" })),
			"0 pools; Calculated status for 0 pools"},
		{"RPS-2 pools by name", newRequest(), all(newSlice("a", "z"), newSlice("b", "y", onAny)), `2 pools; Calculated status for 2 pools
y 1 on -: 1 slices, 0 devices, 0 allocated, 0 unavailable, 0 available
z 1 on node: 1 slices, 0 devices, 0 allocated, 0 unavailable, 0 available`},
		{"RPS-2 one pool", newRequest(ofPool("z")), all(newSlice("a", "z"), newSlice("b", "y")), `1 pools; Calculated status for 1 pools
z 1 on node: 1 slices, 0 devices, 0 allocated, 0 unavailable, 0 available`},
		{"RPS-2 no more than the limit", newRequest(atMost(1)), all(newSlice("a", "z"), newSlice("b", "y")),
			`2 pools; Calculated status for 1 pools
y 1 on node: 1 slices, 0 devices, 0 allocated, 0 unavailable, 0 available`},
		{"RPS-3 older generations do not count", newRequest(), all(newSlice("a", "p", of(2, 2), has("a")), newSlice("b", "p", has("old")),
			newSlice("c", "p", of(2, 2), has("c")), newClaim("x", "p", "old")),
			"1 pools; Calculated status for 1 pools\np 2 on node: 2 slices, 2 devices, 0 allocated, 0 unavailable, 2 available"},
		{"RPS-3 a pool of two nodes", newRequest(), all(newSlice("a", "p", of(1, 2)), newSlice("b", "p", of(1, 2), on("other"))),
			"1 pools; Calculated status for 1 pools\np 1 on -: 2 slices, 0 devices, 0 allocated, 0 unavailable, 0 available"},
		{"RPS-4 a device counts once", newRequest(), all(newSlice("a", "p", has("a"), has("b")), newClaim("x", "p", "a"),
			newClaim("y", "p", "a"), newClaim("z", "p", "b", ofOther), newClaim("v", "q", "b")),
			p + "2 devices, 1 allocated, 0 unavailable, 1 available"},
		{"RPS-4 access of administrators does not count", newRequest(), all(newSlice("a", "p", has("a")), newClaim("x", "p", "a", admin)),
			p + "1 devices, 0 allocated, 0 unavailable, 1 available"},
		{"RPS-21 nor do devices that are gone", newRequest(), all(newSlice("a", "p", has("a")), newClaim("x", "p", "gone")),
			p + "1 devices, 0 allocated, 0 unavailable, 1 available"},
		{"RPS-5 RPS-6 taints of a driver", newRequest(), all(newSlice("a", "p", has("a", tainted(noSchedule)), has("b", tainted(noExecute)),
			has("c", tainted(resourcev1.DeviceTaintEffectNone)), has("d"))),
			p + "4 devices, 0 allocated, 2 unavailable, 2 available"},
		{"RPS-6 taints by rules", newRequest(), all(newSlice("a", "p", has("a"), has("b"), has("c")),
			newRule("1", "driver="+driver+" pool=p device=a", noSchedule), newRule("2", "device=b", noExecute),
			newRule("3", "driver=other.example.com", noExecute), newRule("4", "pool=q", noExecute),
			newRule("5", "", resourcev1.DeviceTaintEffectNone)), p + "3 devices, 0 allocated, 2 unavailable, 1 available"},
		{"RPS-6 a rule for all devices", newRequest(), all(newSlice("a", "p", has("a"), has("b")), newRule("1", "", noExecute)),
			p + "2 devices, 0 allocated, 2 unavailable, 0 available"},
		{"RPS-6 a rule without a selector", newRequest(), all(newSlice("a", "p", has("a")), &resourcev1.DeviceTaintRule{
			Spec: resourcev1.DeviceTaintRuleSpec{Taint: resourcev1.DeviceTaint{Effect: noExecute}}}),
			p + "1 devices, 0 allocated, 0 unavailable, 1 available"},
		{"RPS-20 a device that is allocated is not unavailable", newRequest(), all(newSlice("a", "p", has("a"),
			has("b", tainted(noSchedule)), has("c", tainted(noSchedule)), has("d")), newClaim("x", "p", "a"), newClaim("y", "p", "b")),
			p + "4 devices, 2 allocated, 1 unavailable, 1 available"},
		{"RPS-7 partitions", newRequest(), all(gpu(has("whole"))), p + "4 devices, 0 allocated, 0 unavailable, 4 available; " +
			profile + " Full: 1 of 1; " + profile + " Half: 2 of 2"},
		{"RPS-7 a half is used", newRequest(), all(gpu(), newClaim("x", "p", "half-1"), newClaim("y", "p", "half-1")),
			p + "3 devices, 1 allocated, 0 unavailable, 2 available; " + profile + " Full: 0 of 1; " + profile + " Half: 1 of 2"},
		{"RPS-7 the whole is used", newRequest(), all(gpu(), newClaim("x", "p", "full")),
			p + "3 devices, 1 allocated, 0 unavailable, 2 available; " + profile + " Full: 0 of 1; " + profile + " Half: 0 of 2"},
		{"RPS-7 counters for more than there is", newRequest(), all(gpu(counters("gpu-0", "memory", "800Gi"))),
			p + "3 devices, 0 allocated, 0 unavailable, 3 available; " + profile + " Full: 1 of 1; " + profile + " Half: 2 of 2"},
		{"RPS-7 several counters", newRequest(), all(newSlice("a", "p", partitionedBy(profile), counters("g", "memory", "10"),
			counters("h", "lanes", "3"), has("a", attribute("profile", "A"), costs("g", "memory", "2"), costs("h", "lanes", "2")),
			has("b", attribute("profile", "A"), costs("g", "memory", "2"), costs("h", "lanes", "2")))),
			p + "2 devices, 0 allocated, 0 unavailable, 2 available; " + profile + " A: 1 of 2"},
		{"RPS-7 the request names the attribute", newRequest(groupedBy(profile)), all(gpu(func(s *resourcev1.ResourceSlice) {
			s.Spec.PartitionTypeAttribute = nil
		})), p + "3 devices, 0 allocated, 0 unavailable, 3 available; " + profile + " Full: 1 of 1; " + profile + " Half: 2 of 2"},
		{"RPS-7 slices know better", newRequest(groupedBy("x/y")), all(gpu()), p + "3 devices, 0 allocated, 0 unavailable, 3 available; " +
			profile + " Full: 1 of 1; " + profile + " Half: 2 of 2"},
		{"RPS-7 nobody names one", newRequest(), all(gpu(func(s *resourcev1.ResourceSlice) { s.Spec.PartitionTypeAttribute = nil })),
			p + "3 devices, 0 allocated, 0 unavailable, 3 available"},
		{"RPS-7 a device lacks it", newRequest(), all(gpu(has("x", costs("gpu-0", "memory", "1Gi")))), wrong + "4 devices, 0 allocated, " +
			`0 unavailable, 4 available; PartitionTypeMissing: device "x" in pool gpu.example.com/p does not carry partition type ` +
			`attribute "gpu.example.com/profile"`},
		{"RPS-7 no counters", newRequest(), all(gpu(func(s *resourcev1.ResourceSlice) { s.Spec.SharedCounters = nil })), wrong +
			"3 devices, 0 allocated, 0 unavailable, 3 available; PartitionTypeMissing: pool gpu.example.com/p declares " +
			"partitionTypeAttribute but publishes no sharedCounters"},
		{"RPS-7 no counters, and one is used", newRequest(), all(gpu(func(s *resourcev1.ResourceSlice) { s.Spec.SharedCounters = nil }),
			newClaim("x", "p", "full")), wrong + "3 devices, 1 allocated, 0 unavailable, 2 available; PartitionTypeMissing: pool " +
			"gpu.example.com/p declares partitionTypeAttribute but publishes no sharedCounters"},
		{"RPS-7 devices of a type differ", newRequest(), all(gpu(has("x", attribute("profile", "Full"), costs("gpu-0", "memory", "1Gi")))),
			wrong + "4 devices, 0 allocated, 0 unavailable, 4 available; PartitionCostMismatch: devices of partition type \"Full\" in pool " +
				"gpu.example.com/p consume different counters"},
		{"RPS-7 too many types", newRequest(), all(many(33, func(i int) []deviceEdit {
			return []deviceEdit{attribute("profile", fmt.Sprint(i)), costs("gpu-0", "memory", "1")}
		})), wrong + "33 devices, 0 allocated, 0 unavailable, 33 available; PartitionSummaryOverCap: pool gpu.example.com/p has 33 " +
			"partition types, exceeding the maximum of 32"},
		{"RPS-8 RPS-22 a pool that stays incomplete", newRequest(), all(newSlice("a", "p", of(4, 2), has("a")), newSlice("b", "q", has("b"))),
			"2 pools; Calculated status for 2 pools (1 incomplete)\np 4 on node: - slices, - devices, - allocated, - unavailable, - available; " +
				"PoolIncomplete: pool gpu.example.com/p is incomplete: observed 1/2 slices at generation 4\n" +
				"q 1 on node: 1 slices, 1 devices, 0 allocated, 0 unavailable, 1 available"},
		{"RPS-9 shared devices", newRequest(), all(newSlice("a", "p", has("a", shared("bw=10Gi")), has("b", shared("bw=10Gi", "pps=1M")),
			has("c", shared("bw=10Gi")), has("d")), newClaim("x", "p", "a", consumes("bw", "4Gi")), newClaim("y", "p", "a",
			consumes("bw", "3Gi")), newClaim("z", "p", "b", consumes("bw", "2Gi"))), p + "4 devices, 2 allocated, 0 unavailable, " +
			"2 available; shared: 1 full, 2 partial, bw 30Gi - 9Gi = 21Gi, pps 1M - 0 = 1M"},
		{"RPS-23 a device of which nothing is left", newRequest(), all(newSlice("a", "p", has("a", shared("bw=10Gi")), has("b", shared())),
			newClaim("x", "p", "a", consumes("bw", "10Gi")), newClaim("y", "p", "b")), p + "2 devices, 2 allocated, 0 unavailable, " +
			"0 available; shared: 0 full, 1 partial, bw 10Gi - 10Gi = 0"},
		{"RPS-24 names with and without the domain of the driver", newRequest(), all(newSlice("a", "p", has("a", shared("bw=10Gi")),
			has("b", shared(driver+"/bw=10Gi"))), newClaim("x", "p", "a", consumes(driver+"/bw", "4Gi"))), p + "2 devices, 1 allocated, " +
			"0 unavailable, 1 available; shared: 1 full, 1 partial, bw 20Gi - 4Gi = 16Gi"},
		{"RPS-9 too many capacities", newRequest(), all(many(33, func(i int) []deviceEdit {
			return []deviceEdit{shared(fmt.Sprintf("k%d=1", i))}
		})), wrong + "33 devices, 0 allocated, 0 unavailable, 33 available; ShareableSummaryOverCap: pool gpu.example.com/p has 33 " +
			"shareable capacity keys, exceeding the maximum of 32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plantest.Restored(t, seen(c.request, c.there...))
			d, p := planAnswer(epoch, s)
			if diff := cmp.Diff(c.want, text(d)); diff != "" || len(p.Steps) > 0 || p.Requeue != 0 || p.Why == "" {
				t.Errorf("%+v: %s", p, diff)
			}
		})
	}
}

// An answer is one write of the status, of the version that was seen.
func TestAnswerIsWrittenOnce(t *testing.T) { // RPS-1, RPS-2
	s := seen(newRequest(), newSlice("a", "p", has("a")))
	d, _ := planAnswer(epoch, s)
	before := s.Request.DeepCopy()
	p := reportAnswer(epoch, s, d, plan.Outcome{})
	change := p.Steps[0].(plan.Change)
	if change.Subresource != plan.Status || !change.CheckVersion || change.New.(*request).Status != d || len(p.Steps) != 1 {
		t.Errorf("%+v", change)
	}
	c := d.Conditions[0]
	if c.Type != "Complete" || c.Status != "True" || c.Reason != "CalculationComplete" || !c.LastTransitionTime.Time.Equal(epoch) {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff(before, s.Request); diff != "" {
		t.Errorf("the report changes what was observed: %s", diff)
	}
	s.Request = change.New.(*request)
	if d, p := planAnswer(epoch, s); d != nil || !p.Empty() || !reportEmpty(s, d) {
		t.Errorf("it is answered again: %v, %+v", d, p)
	}
}

func reportEmpty(s snapshot, d decision) bool {
	return reportAnswer(epoch, s, d, plan.Outcome{}).Empty()
}

// What is not proved is waited for, and then asked for; a pool that lacks slices is waited for, too.
func TestWhatIsWaitedFor(t *testing.T) {
	partial := newSlice("a", "p", of(1, 2))
	for _, c := range []struct {
		name    string
		edit    func(*snapshot)
		after   time.Duration // since the request was first seen
		there   []plan.Object
		requeue time.Duration
		proof   int
		answer  bool
	}{
		{"RPS-1 a request is answered at once", func(*snapshot) {}, 0, nil, 0, 0, true},
		{"RPS-26 caches may be older than the request", func(s *snapshot) { s.Late = s.lists() }, patience - 1, nil, lookAgain, 0, false},
		{"RPS-26 they have had their time", func(s *snapshot) { s.Late = s.lists() }, patience, nil, 0, 3, false},
		{"one cache may be older", func(s *snapshot) { s.Late = s.lists()[2:] }, patience, nil, 0, 1, false},
		{"a server without rules", func(s *snapshot) { s.WithoutRules = true; s.Late = s.lists() }, time.Hour, nil, 0, 2, false},
		{"RPS-22 a pool that lacks slices", func(*snapshot) {}, time.Second, all(partial), incompletely - time.Second, 0, false},
		{"RPS-22 for too long", func(*snapshot) {}, incompletely, all(partial), 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := seen(newRequest(), c.there...)
			s.Since = epoch
			c.edit(&s)
			d, p := planAnswer(epoch.Add(c.after), s)
			if p.Requeue != c.requeue || len(p.Proof) != c.proof || (d != nil) != c.answer || !p.Empty() || p.Why == "" {
				t.Errorf("%v, %+v", d, p)
			}
		})
	}
}

// Requests go when their time is over, and not before.
func TestRPS10Expiry(t *testing.T) {
	for _, c := range []struct {
		name    string
		request *request
		left    time.Duration
	}{
		{"answered", newRequest(answered(resourcev1alpha3.ResourcePoolStatusRequestConditionComplete, 10*time.Minute)), 50 * time.Minute},
		{"failed, by somebody else", newRequest(answered(resourcev1alpha3.ResourcePoolStatusRequestConditionFailed, 0)), time.Hour},
		{"answered without a condition that is known", newRequest(answered("Odd", 0)), 24 * time.Hour},
		{"not answered", newRequest(), 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot{Request: c.request, Since: epoch}
			if _, p := planAnswer(epoch.Add(c.left-1), s); len(p.Steps) > 0 {
				t.Errorf("too early: %+v", p)
			}
			if _, p := planAnswer(epoch, s); c.request.Status != nil && p.Requeue != c.left {
				t.Errorf("again after %v", p.Requeue)
			}
			_, p := planAnswer(epoch.Add(c.left), s)
			if len(p.Steps) != 1 || !p.Steps[0].(plan.Delete).CheckVersion ||
				p.Steps[0].(plan.Delete).Objects[0] != plan.Object(c.request) {
				t.Errorf("too late: %+v", p)
			}
		})
	}
}

// What is said of a pool has at most 256 bytes.
func TestLongNames(t *testing.T) {
	d, _ := planAnswer(epoch, seen(newRequest(), newSlice("a", strings.Repeat("p", 300), of(1, 2))))
	if n := len(*d.Pools[0].ValidationError); n != 256 {
		t.Errorf("%d bytes", n)
	}
}

func TestREG44Names(t *testing.T) {
	c := New(Options{})
	if c.Name != "resourcepoolstatusrequest-controller" || c.Alias != "" || c.Account != c.Name || c.OffByDefault || c.Flags != nil ||
		fmt.Sprint(c.Gates, c.Needs[0]) != "[DRAResourcePoolStatus] resource.k8s.io/v1alpha3, Resource=resourcepoolstatusrequests" {
		t.Errorf("%+v", c)
	}
}
