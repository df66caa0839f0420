package devicetainteviction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// listed are the slices of the driver of the fixtures.
const listed = "all ResourceSlices with spec.driver=gpu.example.com"

// evicted is what becomes of the pod web because of taints in the objects, of which one may be live.
func evicted(sources ...string) (all []string) {
	all = append(all, "if Pod shop/web bears it out")
	for _, source := range sources {
		all = append(all, "if "+source+" bears it out")
	}
	return append(all, "Normal DeviceTaintManagerEviction Marking for deletion",
		"status DisruptionTarget True DeletionByDeviceTaintManager 3 0s", "delete web grace=<nil>")
}

var cancelled = []string{"Normal DeviceTaintManagerEviction Cancelling deletion"}

// A row is a sentence: the pod web, its claims and what taints their devices. The time is epoch.
func TestPlan(t *testing.T) {
	web := newPod("web", names("c"))
	broken := newSlice("s", 1, bad("k", 0))
	with := func(tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
		return newClaim("c", by(web), tolerating(tolerations...))
	}
	equal := resourcev1.DeviceToleration{Key: "k", Value: "v", Effect: resourcev1.DeviceTaintEffectNoExecute}
	valued := func(value string) *resourcev1.ResourceSlice {
		t := bad("k", 0)
		t.Value = value
		return newSlice("s", 1, t)
	}
	waits := memory{LastEvent: pending}
	for _, c := range []struct {
		name    string
		objects []plan.Object
		memory  memory
		want    []string
	}{
		{"DTE-2, DTE-5 a device with a taint: the condition comes first, and all is read live", []plan.Object{web, with(), broken},
			memory{}, evicted(listed)},
		{"DTE-2 other effects evict nobody",
			[]plan.Object{web, with(), newSlice("s", 1, withEffect("NoSchedule"), withEffect("None"), withEffect("Other"))}, memory{}, nil},
		{"DTE-2 another device of the pool", []plan.Object{web, newClaim("c", by(web), only("p", "d1")), broken}, memory{}, nil},
		{"DTE-2 another pool", []plan.Object{web, newClaim("c", by(web), only("q", "d0")), broken}, memory{}, nil},
		{"DTE-2 an older generation of the pool", []plan.Object{web, with(), broken, newSlice("t", 2)}, memory{}, nil},
		{"DTE-2 the newest one", []plan.Object{web, with(), newSlice("t", 0), broken}, memory{}, evicted(listed)},
		{"DTE-2 the generations of another pool", []plan.Object{web, with(), broken, sliceOf("q", "t", 2)}, memory{},
			evicted(listed)},
		{"DTE-2 a rule for all devices", []plan.Object{web, with(), newRule("r", everything(), bad("k", 0))}, memory{},
			evicted("DeviceTaintRule r")},
		{"DTE-2 a rule without a selector", []plan.Object{web, with(), newRule("r", nil, bad("k", 0))}, memory{}, nil},
		{"DTE-2 a rule for its pool", []plan.Object{web, with(), newRule("r", inPool("p"), bad("k", 0))}, memory{},
			evicted("DeviceTaintRule r")},
		{"DTE-2 a rule for another pool", []plan.Object{web, with(), newRule("r", inPool("q"), bad("k", 0))}, memory{}, nil},
		{"DTE-2 a rule for another driver",
			[]plan.Object{web, with(), newRule("r", &resourcev1.DeviceTaintSelector{Driver: ptr.To("x")}, bad("k", 0))}, memory{}, nil},
		{"DTE-2 a rule for another device",
			[]plan.Object{web, with(), newRule("r", &resourcev1.DeviceTaintSelector{Device: ptr.To("d1")}, bad("k", 0))}, memory{}, nil},
		{"DTE-2 a rule with another effect", []plan.Object{web, with(), newRule("r", everything(), withEffect("None"))}, memory{}, nil},
		{"DTE-2 both", []plan.Object{web, with(), broken, newRule("r", everything(), bad("a", 0))}, memory{},
			evicted("DeviceTaintRule r", listed)},
		{"DTE-3 a toleration without end", []plan.Object{web, with(tolerates("k", -1)), broken}, memory{}, nil},
		{"MEND-32 one without an effect", []plan.Object{web, with(resourcev1.DeviceToleration{Key: "k", Operator: "Exists"}), broken},
			memory{}, nil},
		{"DTE-3 one of another effect",
			[]plan.Object{web, with(resourcev1.DeviceToleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"}), broken}, memory{},
			evicted(listed)},
		{"DTE-3 one of all keys", []plan.Object{web, with(tolerates("", -1)), broken}, memory{}, nil},
		{"DTE-3 one of another key", []plan.Object{web, with(tolerates("x", -1)), broken}, memory{}, evicted(listed)},
		{"DTE-3 an equal value", []plan.Object{web, with(equal), valued("v")}, memory{}, nil},
		{"DTE-3 another value", []plan.Object{web, with(equal), valued("w")}, memory{}, evicted(listed)},
		{"DTE-3 an operator that nobody knows",
			[]plan.Object{web, with(resourcev1.DeviceToleration{Key: "k", Operator: "Like"}), broken}, memory{}, evicted(listed)},
		{"DTE-3 a time, from when the taint was added", []plan.Object{web, with(tolerates("k", 300)), newSlice("s", 1, bad("k", -100))},
			memory{}, []string{"again in 3m20s"}},
		{"DTE-3 a time that is over", []plan.Object{web, with(tolerates("k", 300)), newSlice("s", 1, bad("k", -300))}, memory{},
			evicted(listed)},
		{"DTE-3 a negative time is none",
			[]plan.Object{web, with(resourcev1.DeviceToleration{Operator: "Exists", TolerationSeconds: ptr.To[int64](-5)}), broken},
			memory{}, evicted(listed)},
		{"DTE-3 one without end beside a time", []plan.Object{web, with(tolerates("k", 0), tolerates("", -1)), broken}, memory{}, nil},
		{"DTE-3 the shortest of several", []plan.Object{web, with(tolerates("k", 300), tolerates("", 60), tolerates("x", 1)), broken},
			memory{}, []string{"again in 1m0s"}},
		{"a time that is too long is without end", []plan.Object{web, with(tolerates("k", 1<<62)), broken}, memory{}, nil},
		{"a taint without a time is as old as what has it", []plan.Object{web, with(tolerates("k", 6000)),
			newSlice("s", 1, resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNoExecute})}, memory{},
			[]string{"again in 16m40s"}},
		{"DTE-3 a taint that is announced", []plan.Object{web, with(), newSlice("s", 1, bad("k", 500))}, memory{},
			[]string{"again in 8m20s"}},
		{"DTE-4 the earliest time of all devices", []plan.Object{newPod("web", names("c"), names("d")), with(tolerates("", 300)),
			newClaim("d", by(web), only("q", "d0", tolerates("", 60))), broken, sliceOf("q", "t", 1, bad("k", 0))}, memory{},
			[]string{"again in 1m0s"}},
		{"DTE-4 a claim that it has not reserved", []plan.Object{web, newClaim("c", by(newPod("db"))), broken}, memory{}, nil},
		{"DTE-4 one that an earlier pod of the name has reserved", []plan.Object{web, newClaim("c", by(newPod("web", uid("old")))), broken},
			memory{}, nil},
		{"DTE-4 one that it does not name", []plan.Object{newPod("web"), with(), broken}, memory{}, nil},
		{"DTE-4 the claim of an entry with a template", []plan.Object{newPod("web", made("c")), newClaim("c", by(web), of(web)), broken},
			memory{}, evicted(listed)},
		{"DTE-4 that belongs to somebody else", []plan.Object{newPod("web", made("c")), newClaim("c", by(web), of(newPod("db"))), broken},
			memory{}, nil},
		{"DTE-20 the claim of its extended resources", []plan.Object{newPod("web", extended("c")), newClaim("c", by(web), of(web)), broken},
			memory{}, evicted(listed)},
		{"DTE-4 a claim without devices", []plan.Object{web, newClaim("c", by(web), unallocated), broken}, memory{}, nil},
		{"DTE-4 a pod that is on no node", []plan.Object{newPod("web", names("c"), unbound), with(), broken}, memory{}, nil},
		{"DTE-5 a pod that is being deleted", []plan.Object{newPod("web", names("c"), leaving), with(), broken}, waits, nil},
		{"a pod that has finished", []plan.Object{newPod("web", names("c"), finished), with(), broken}, waits, nil},
		{"DTE-5 what it was told once is not repeated", []plan.Object{web, with(), broken}, memory{LastEvent: evicting},
			append(evicted(listed)[:2:2], evicted(listed)[3:]...)},
		{"DTE-5 a condition that is True already keeps its time", []plan.Object{newPod("web", names("c"), marked), with(), broken},
			memory{}, append(evicted(listed)[:3:3], "status DisruptionTarget True DeletionByDeviceTaintManager 3 -7s",
				"delete web grace=<nil>")},
		{"DTE-6 the taint is gone in time", []plan.Object{web, with(), newSlice("s", 1)}, waits, cancelled},
		{"DTE-6 the reservation is gone in time", []plan.Object{web, newClaim("c"), broken}, waits, cancelled},
		{"DTE-6 it tolerates it now", []plan.Object{web, with(tolerates("", -1)), broken}, waits, cancelled},
		{"DTE-6 nobody was told", []plan.Object{web, with(), newSlice("s", 1)}, memory{LastEvent: evicting}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, p := planEviction(epoch, newTestCaches(t, c.objects...).look(t, c.memory))
			if diff := cmp.Diff(c.want, said(p)); diff != "" {
				t.Error(diff)
			}
			if p.Why == "" || d.LastEvent == evicting != deletes(p) {
				t.Errorf("%+v: %q", d, p.Why)
			}
		})
	}
}

// A pod that a live read does not find is gone, and one that nothing taints any more stays.
func TestGone(t *testing.T) { // DTE-5
	s := snapshot{Pod: newPod("web"), Claims: []*resourcev1.ResourceClaim{newClaim("c")}, Gone: true,
		Slices: []*resourcev1.ResourceSlice{newSlice("s", 1, bad("k", 0))}}
	if _, p := planEviction(epoch, s); !p.Empty() || p.Why != "the pod is gone" {
		t.Errorf("%v: %s", said(p), p.Why)
	}
}

// A row says of a rule that concerns so many pods whether the pod web is held, and until when.
func TestManyPods(t *testing.T) { // DTE-22
	rule := newRule("r", everything(), bad("k", 0))
	since := func(seconds int, rules ...types.UID) map[types.UID]time.Time {
		all := map[types.UID]time.Time{}
		for _, uid := range rules {
			all[uid] = at(seconds)
		}
		return all
	}
	with := func(s *snapshot, more *resourcev1.DeviceTaintRule) {
		s.Rules = append(s.Rules, more)
		s.Many[more.Name] = s.Many["r"]
	}
	for _, c := range []struct {
		name  string
		pods  int // all but one with the rule's taint
		edit  func(s *snapshot)
		held  bool
		again time.Duration
		ended plan.HoldEnd
	}{
		{"more than half", 6, nil, true, 15 * time.Second, plan.ByProof},
		{"there are few pods with devices", 3, nil, false, 0, plan.ByProof},
		{"it was held for a while", 6, func(s *snapshot) { s.Memory.Held = since(-290, "uid-r") }, true, 10 * time.Second, plan.ByProof},
		{"the time is over", 6, func(s *snapshot) { s.Memory.Held = since(-300, "uid-r") }, false, 0, plan.ByTime},
		{"the previous leader has held it", 6, func(s *snapshot) { s.Since = since(-290, "uid-r") }, true, 10 * time.Second, plan.ByProof},
		{"another rule was held", 6, func(s *snapshot) { s.Memory.Held = since(-300, "uid-other") }, true, 15 * time.Second,
			plan.ByProof},
		{"the previous leader has held another rule", 6, func(s *snapshot) { s.Since = since(-300, "uid-other") }, true,
			15 * time.Second, plan.ByProof},
		{"another rule concerns many, too", 6, func(s *snapshot) {
			with(s, newRule("s", everything(), bad("k", 0)))
			s.Memory.Held = since(-290, "uid-s")
		}, true, 10 * time.Second, plan.ByProof},
		{"and its time is over", 6, func(s *snapshot) {
			with(s, newRule("s", everything(), bad("k", 0)))
			s.Memory.Held = since(-300, "uid-s")
		}, false, 0, plan.ByTime},
		{"another rule will be due, long after it was made", 6, func(s *snapshot) {
			with(s, newRule("s", everything(), bad("k", 400)))
		}, true, 15 * time.Second, plan.ByProof},
		{"another taint is due", 6, func(s *snapshot) { s.Slices = append(s.Slices, newSlice("s", 1, bad("k", 0))) }, false, 0,
			plan.ByProof},
		{"another taint will be due", 6, func(s *snapshot) {
			s.Claims = []*resourcev1.ResourceClaim{newClaim("c", tolerating(tolerates("soon", 5)))}
			s.Slices = append(s.Slices, newSlice("s", 1, bad("soon", 0)))
		}, true, 5 * time.Second, plan.ByProof},
	} {
		t.Run(c.name, func(t *testing.T) {
			web := newPod("web", names("c"))
			k := newTestCaches(t, append(crowd(c.pods), web, newClaim("c", by(web)), rule)...)
			s := k.look(t, memory{})
			if c.edit != nil {
				c.edit(&s)
			}
			d, p := planEviction(epoch, s)
			want := plan.Hold{Ended: c.ended}
			if c.held {
				want = plan.Hold{What: "pods that the DeviceTaintRule r evicts", Why: fmt.Sprintf("it concerns %d of %d pods with devices",
					c.pods+1, c.pods+1)}
			}
			if p.Hold != want || p.Requeue != c.again || deletes(p) == c.held || c.held &&
				(d.Held["uid-r"].IsZero() || d.LastEvent != pending) {
				t.Errorf("%+v, again in %s: %+v", p.Hold, p.Requeue, d)
			}
			if c.held && !strings.Contains(p.Why, "it is held") {
				t.Error(p.Why)
			}
		})
	}
}

// The time for which pods are held begins when they are due, for each rule.
func TestHeldFromWhenTheyAreDue(t *testing.T) { // DTE-22
	web := newPod("web", names("c"))
	k := newTestCaches(t, append(crowd(6), web, newClaim("c", by(web), tolerating(tolerates("a", 3600))),
		newRule("a", everything(), bad("a", 0)), newRule("b", everything(), bad("b", 1800)))...)
	s := k.look(t, memory{})
	for _, c := range []struct {
		seconds int
		held    map[types.UID]time.Time
		deletes bool
	}{
		{0, nil, false},
		{1799, nil, false},
		{1800, map[types.UID]time.Time{"uid-b": at(1800)}, false},
		{2099, map[types.UID]time.Time{"uid-b": at(1800)}, false},
		{2100, map[types.UID]time.Time{"uid-b": at(1800)}, true},
		{3600, map[types.UID]time.Time{"uid-a": at(3600), "uid-b": at(1800)}, true},
	} {
		d, p := planEviction(at(c.seconds), s)
		s.Memory = *remember(at(c.seconds), s, d, plan.Outcome{})
		if diff := cmp.Diff(c.held, d.Held); diff != "" || deletes(p) != c.deletes {
			t.Errorf("after %d s: %s: %s", c.seconds, p.Why, diff)
		}
	}
}

// What taints the devices of a pod is found without a look at those of others.
func TestLargePools(t *testing.T) {
	web := newPod("web", names("c"))
	claim := newClaim("c", by(web), tolerating(tolerates("k", -1)))
	costs := func(devices int) (costs [3]float64) {
		large, well := newSlice("s", 1, bad("k", 0)), newSlice("t", 1)
		for i := range devices {
			d := resourcev1.Device{Name: fmt.Sprint("more-", i), Taints: []resourcev1.DeviceTaint{bad("k", 0)}}
			large.Spec.Devices = append(large.Spec.Devices, d)
		}
		k := newTestCaches(t, web, claim, large, well)
		s, other := k.look(t, memory{}), newClaim("d", only("p", "d1"))
		costs[0] = testing.AllocsPerRun(10, func() { planEviction(epoch, s) })
		costs[1] = testing.AllocsPerRun(10, func() { k.tainted(other) })
		costs[2] = testing.AllocsPerRun(10, func() { k.enqueuedBySlice(well, well) })
		return costs
	}
	if few, many := costs(1), costs(1000); few != many {
		t.Errorf("with one device more it allocates %v times, with 1000 %v times", few, many)
	}
}

// Which rules a pod was evicted for is told once, however many of its devices they taint.
func TestRulesOfAnEviction(t *testing.T) { // DTE-7
	web := newPod("web", names("c"))
	k := newTestCaches(t, web, newClaim("c", by(web), has("p", "d1")), newSlice("s", 1, bad("k", 0)),
		newRule("a", everything(), bad("k", 0)), newRule("b", inPool("p"), bad("k", 0)), newRule("later", everything(), bad("k", 60)))
	d, _ := planEviction(epoch, k.look(t, memory{}))
	if diff := cmp.Diff([]types.UID{"uid-a", "uid-b"}, d.Rules); diff != "" {
		t.Error(diff)
	}
	if d.Due != at(0) || !strings.HasPrefix(d.Taint, "k:NoExecute of the device gpu.example.com/p/d") {
		t.Errorf("%+v", d)
	}
}

// A pod counts as due since it has the device, if that is later than the taint.
func TestDueSince(t *testing.T) { // DTE-8
	web := newPod("web", names("c"))
	k := newTestCaches(t, web, newClaim("c", by(web)), newSlice("s", 1, bad("k", -4000)))
	if d, _ := planEviction(epoch, k.look(t, memory{})); d.Due != at(-1000) {
		t.Errorf("due since %s", d.Due.Sub(epoch))
	}
	c := newClaim("c", by(web))
	c.Status.Allocation.AllocationTimestamp = nil
	k = newTestCaches(t, web, c, newSlice("s", 1, bad("k", -6000)))
	if d, _ := planEviction(epoch, k.look(t, memory{})); d.Due != at(-5000) {
		t.Errorf("due since %s", d.Due.Sub(epoch))
	}
}

// What is remembered is what was told and since when the pod is held; nothing of a pod that is left alone.
func TestRemember(t *testing.T) {
	if m := remember(epoch, snapshot{Pod: &corev1.Pod{}}, decision{}, plan.Outcome{}); m != nil {
		t.Errorf("%+v", m)
	}
	want := &memory{LastEvent: pending, Held: map[types.UID]time.Time{"uid-r": epoch}}
	got := remember(epoch, snapshot{}, decision{LastEvent: pending, Held: want.Held, Taint: "k"}, plan.Outcome{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
