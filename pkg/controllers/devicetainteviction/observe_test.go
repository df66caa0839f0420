package devicetainteviction

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func namesOf(keys []plan.Key) (names []string) {
	for _, key := range keys {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A row is a change, the caches after it, and the pods that are looked at because of it.
func TestPodsThatAreEnqueued(t *testing.T) {
	web := newPod("web", names("c"))
	claim, broken, well := newClaim("c", by(web)), newSlice("s", 1, bad("k", 0)), newSlice("s", 1)
	rule := newRule("r", everything(), bad("k", 0))
	for _, c := range []struct {
		name          string
		cached        []plan.Object
		before, after plan.Object
		want          []string
	}{
		{"a pod has come to a node", []plan.Object{claim, broken}, newPod("web", names("c"), unbound), web, []string{"web"}},
		{"and its devices are well", []plan.Object{claim, well}, newPod("web", names("c"), unbound), web, nil},
		{"a pod was there before the controller began", []plan.Object{claim, rule}, nil, web, []string{"web"}},
		{"a pod gets the claim of its extended resources", []plan.Object{claim, broken}, newPod("web"), newPod("web", extended("c")),
			[]string{"web"}},
		{"somebody deletes a pod", []plan.Object{claim, broken}, web, newPod("web", names("c"), leaving), []string{"web"}},
		{"nothing of it has changed", []plan.Object{claim, broken}, web, newPod("web", names("c"), marked), nil},
		{"a pod is gone, and forgotten", nil, web, nil, []string{"web"}},
		{"a pod without devices", []plan.Object{broken}, newPod("web"), nil, nil},
		{"a claim is reserved", []plan.Object{web, claim, broken}, newClaim("c"), claim, []string{"web"}},
		{"DTE-6 a reservation is gone", []plan.Object{web, broken}, claim, newClaim("c"), []string{"web"}},
		{"a claim is gone", []plan.Object{web, broken}, claim, nil, []string{"web"}},
		{"a claim without tainted devices", []plan.Object{web, claim, well}, newClaim("c"), claim, nil},
		{"nothing of a claim has changed", []plan.Object{web, claim, broken}, claim, newClaim("c", by(web)), nil},
		{"DTE-2 a device gets a taint", []plan.Object{claim, newClaim("d", by(newPod("db")), only("q", "d0")), broken}, well, broken,
			[]string{"web"}},
		{"DTE-6 a device loses its taint", []plan.Object{claim, well}, broken, well, []string{"web"}},
		{"a slice is gone", []plan.Object{claim}, broken, nil, []string{"web"}},
		{"a slice without taints", []plan.Object{claim, well}, nil, well, nil},
		{"DTE-2 another slice has a newer generation", []plan.Object{claim, broken, newSlice("t", 2)}, newSlice("t", 1), newSlice("t", 2),
			[]string{"web"}},
		{"another effect", []plan.Object{claim, well}, well, newSlice("s", 1, withEffect("NoSchedule")), nil},
		{"DTE-2 a rule has come", []plan.Object{claim, rule}, nil, rule, []string{"web"}},
		{"DTE-6 a rule is gone", []plan.Object{claim}, rule, nil, []string{"web"}},
		{"a rule has another effect", []plan.Object{claim}, rule, newRule("r", everything(), withEffect("None")), []string{"web"}},
		{"a rule without effect", []plan.Object{claim}, nil, newRule("r", everything(), withEffect("None")), nil},
		{"a rule of the pool", []plan.Object{claim, newClaim("d", by(newPod("db")), only("q", "d0"))}, nil,
			newRule("r", inPool("p"), bad("k", 0)), []string{"web"}},
		{"a rule of a device", []plan.Object{claim, newClaim("d", by(newPod("db")), only("p", "d1"))}, nil,
			newRule("r", &resourcev1.DeviceTaintSelector{Device: ptr.To("d0")}, bad("k", 0)), []string{"web"}},
		{"a rule of no device", []plan.Object{claim}, nil, newRule("r", nil, bad("k", 0)), nil},
		{"the status of a rule", []plan.Object{claim, rule}, rule, withStatus(newRule("r", everything(), bad("k", 0)), "True", "", "", 3),
			nil},
	} {
		k := newTestCaches(t, c.cached...)
		var keys []plan.Key
		switch {
		case kind[*corev1.Pod](c.before, c.after):
			keys = k.enqueuedByPod(c.before, c.after)
		case kind[*resourcev1.ResourceClaim](c.before, c.after):
			keys = k.enqueuedByClaim(c.before, c.after)
		case kind[*resourcev1.ResourceSlice](c.before, c.after):
			keys = k.enqueuedBySlice(c.before, c.after)
		default:
			keys = k.enqueuedByRule(c.before, c.after)
		}
		if diff := cmp.Diff(c.want, namesOf(keys)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func kind[T plan.Object](before, after plan.Object) bool {
	_, was := before.(T)
	_, is := after.(T)
	return was || is
}

// A row is a change, the caches after it, and the rules whose status may have to change because of it.
func TestRulesThatAreEnqueued(t *testing.T) { // DTE-7
	web := newPod("web", names("c"))
	claim, rule := newClaim("c", by(web)), newRule("r", inPool("p"), bad("k", 0))
	others := []plan.Object{rule, newRule("other", inPool("q"), bad("k", 0)), newRule("none", inPool("p"), withEffect("None"))}
	for _, c := range []struct {
		name          string
		cached        []plan.Object
		before, after plan.Object
		want          []string
	}{
		{"a claim is reserved", nil, newClaim("c"), claim, []string{"r"}},
		{"a claim is given back", nil, claim, newClaim("c", unallocated), []string{"r"}},
		{"nothing of a claim has changed", nil, claim, newClaim("c", by(web)), nil},
		{"a claim has come", nil, nil, claim, []string{"r"}},
		{"a pod is being deleted", []plan.Object{claim}, web, newPod("web", names("c"), leaving), []string{"r"}},
		{"a pod is gone", []plan.Object{claim}, web, nil, []string{"r"}},
		{"a pod has come to a node", []plan.Object{claim}, newPod("web", names("c"), unbound), web, []string{"r"}},
		{"nothing of a pod has changed", []plan.Object{claim}, web, newPod("web", names("c"), marked), nil},
		{"a pod without devices", []plan.Object{claim}, nil, newPod("db"), nil},
	} {
		k := newTestCaches(t, append(c.cached, others...)...)
		keys := k.rulesByClaim(c.before, c.after)
		if kind[*corev1.Pod](c.before, c.after) {
			keys = k.rulesByPod(c.before, c.after)
		}
		if diff := cmp.Diff(c.want, namesOf(keys)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	told := withStatus(newRule("r", inPool("p"), bad("k", 0)), "True", "", "", 3)
	for _, c := range []struct {
		name          string
		before, after plan.Object
		spec, status  []string
	}{
		{"a rule has come", nil, rule, []string{"r"}, nil},
		{"a rule is gone", rule, nil, []string{"r"}, nil},
		{"a rule has another spec", rule, newRule("r", everything(), bad("k", 0)), []string{"r"}, nil},
		{"a rule has another status", rule, told, nil, []string{"r"}},
		{"a rule has other labels", rule, newRule("r", inPool("p"), bad("k", 0)), nil, nil},
	} {
		if diff := cmp.Diff(c.spec, namesOf(rulesBySpec(c.before, c.after))); diff != "" {
			t.Errorf("%s, at once: %s", c.name, diff)
		}
		if diff := cmp.Diff(c.status, namesOf(rulesByStatus(c.before, c.after))); diff != "" {
			t.Errorf("%s, soon: %s", c.name, diff)
		}
	}
}

// Pods are counted once each, if they are there and do not tolerate the taint without end; also for a rule without effect.
func TestCounts(t *testing.T) { // DTE-7
	web, db := newPod("web", names("c"), names("d")), newPod("db", made("m"))
	elsewhere := newPod("web", names("c"))
	elsewhere.Namespace, elsewhere.UID = "other", "uid-elsewhere"
	there := newClaim("c", by(elsewhere), tolerating(tolerates("k", 300)))
	there.Namespace = "other"
	k := newTestCaches(t, web, db, elsewhere, there, newClaim("c", by(web)), newClaim("d", by(web)), newClaim("m", by(db), of(db), only("q", "d0")),
		newPod("leaves", names("l"), leaving), newClaim("l", by(newPod("leaves"))), newClaim("x", by(newPod("gone"))),
		newClaim("u", unallocated),
		newPod("strong", names("s")), newClaim("s", by(newPod("strong")), tolerating(tolerates("", -1))),
		newRule("all", everything(), bad("k", 0)), newRule("p", inPool("p"), withEffect("None")), newRule("none", nil, bad("k", 0)))
	want := counts{Pods: 4, Rules: map[string]count{"all": {3, 2, 7}, "p": {2, 2, 6}, "none": {}}}
	if diff := cmp.Diff(want, k.count(epoch)); diff != "" {
		t.Error(diff)
	}
}

// Of published devices those count that are in the latest generation of their pool.
func TestPublished(t *testing.T) { // DTE-7
	k := newTestCaches(t, newSlice("old", 1), newSlice("new", 2), sliceOf("q", "other", 1))
	for want, selector := range map[int]*resourcev1.DeviceTaintSelector{4: everything(), 2: inPool("p"), 0: nil} {
		if got := k.published(newRule("r", selector, bad("k", 0))); got != want {
			t.Errorf("%d devices, want %d", got, want)
		}
	}
}
