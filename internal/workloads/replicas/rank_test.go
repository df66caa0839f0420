package replicas

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// In each row, the pod "first" goes before the pod "then". Its uid is the larger one, so that it is not the uid that
// decides; where it is, the row gives the uids.
func TestRanking(t *testing.T) {
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	all := func(edits ...podEdit) podEdit {
		return func(p *corev1.Pod) {
			for _, edit := range edits {
				edit(p)
			}
		}
	}
	none := metav1.Time{}
	for _, c := range []struct {
		name        string
		first, then podEdit
	}{
		{"RS-31.1 unassigned before assigned, even if ready and running", node(""), all(unready, phase(corev1.PodPending))},
		{"RS-31.2 Pending before Unknown", all(unready, phase(corev1.PodPending)), all(unready, phase(corev1.PodUnknown))},
		{"RS-31.2 Unknown before Running", all(unready, phase(corev1.PodUnknown)), unready},
		{"RS-31.2 an unlisted phase counts as Pending", phase("Dreaming"), phase(corev1.PodUnknown)},
		{"RS-31.2 an unlisted phase ties with Pending", all(phase(corev1.PodPending), restarted(1)), phase("Dreaming")},
		{"RS-31.2 phase goes before readiness", phase(corev1.PodUnknown), unready},
		{"RS-31.3 not ready before ready, even at a higher cost", all(unready, cost("9")), pass},
		{"RS-31.4 lower cost first", cost("-1"), pass},
		{"RS-31.4 cost goes before age", cost("1"), all(cost("2"), ready(time.Second))},
		{"RS-31.4 an invalid cost is 0", all(cost("+5"), restarted(1)), pass},
		{"RS-31.4 an invalid cost is 0, not the largest", cost("-1"), cost("many")},
		{"RS-31.5 more related pods on the node first", node("crowded"), pass},
		{"RS-31.5 crowding goes before age", node("crowded"), ready(time.Second)},
		{"RS-31.6 shorter ready first", ready(time.Minute), ready(time.Hour)},
		{"RS-31.6 ages in one power of two are equal: smaller uid first", all(ready(61*time.Minute), uid("a")),
			all(ready(60*time.Minute), uid("b"))},
		{"RS-31.6 and there it ends: restarts have no say", all(ready(61*time.Minute), uid("a")),
			all(ready(60*time.Minute), uid("b"), restarted(7))},
		{"RS-31.6 powers of two of nanoseconds: 4.2s is less than 4.3s", ready(4290 * time.Millisecond), ready(4300 * time.Millisecond)},
		{"RS-31.7 ready since the same moment: more restarts first", restarted(2), restarted(1)},
		{"RS-31.7 it is the highest of all containers that counts", restarted(0, 3), restarted(2, 2)},
		{"RS-31.7 not ready: more restarts first", all(unready, restarted(1)), unready},
		{"RS-31.7 then the sidecars'", initRestarted("s", always, 1), initRestarted("s", always, 0)},
		{"RS-31.7 regular containers go before sidecars", restarted(1), initRestarted("s", always, 9)},
		{"RS-31.7 other init containers don't count", initRestarted("s", always, 1), initRestarted("i", nil, 9)},
		{"RS-31.8 newer first", created(time.Minute), created(time.Hour)},
		{"RS-31.8 ages in one power of two are equal: smaller uid first", all(created(61*time.Minute), uid("a")),
			all(created(60*time.Minute), uid("b"))},
		{"RS-33 no ready time is newest", readySince(none), ready(time.Nanosecond)},
		{"RS-33 and newer than one in the future", readySince(none), ready(-time.Hour)},
		{"RS-33 no creation time is newest", createdAt(none), created(time.Nanosecond)},
		{"RS-33 two without ready time: more restarts first", all(readySince(none), restarted(1)), readySince(none)},
		{"RS-33 ages that are not positive are equal, and less than any other", ready(-time.Hour), ready(time.Nanosecond)},
		{"RS-33 future times: smaller uid first", all(ready(-time.Hour), uid("a")), all(ready(0), uid("b"))},
		{"RS-34 the last tie is broken by uid", uid("a"), uid("b")},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, then := pod("first", uid("y"), c.first), pod("then", uid("x"), c.then)
			near := map[string]int{"crowded": 2, "node-1": 1}
			for _, order := range [][]*corev1.Pod{{first, then}, {then, first}} {
				if got := names(ranking{now: now, near: near, costs: true}.order(order)); got[0] != "first" {
					t.Errorf("%v becomes %v", names(order), got)
				}
			}
		})
	}
}

func pass(*corev1.Pod) {}

// With minReadySeconds, what is ready but not available goes before what is, whatever it costs and wherever it is: a rolling
// update has counted on that.
func TestRankingKnowsAvailability(t *testing.T) {
	fresh, since := pod("fresh", ready(5*time.Second), cost("9")), pod("since", ready(time.Minute), node("crowded"))
	for _, c := range []struct {
		minReady int32
		first    string
	}{{0, "since"}, {10, "fresh"}, {1, "since"}, {300, "since"}} {
		k := ranking{now: now, near: map[string]int{"crowded": 2}, minReady: c.minReady, costs: true}
		if got := names(k.order(list(since, fresh))); got[0] != c.first {
			t.Errorf("minReadySeconds %d: %v", c.minReady, got)
		}
	}
}

// Where pairs go round in a circle, the uids give the places and the peers swap them (see ranking.order).
func TestRankingBreaksCircles(t *testing.T) {
	early, late := ago(61*time.Minute), ago(60*time.Minute)
	circle := list(
		pod("A", uid("1"), readySince(early)), pod("B", uid("2"), readySince(late)), pod("C", uid("3"), readySince(early), restarted(1)),
	)
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
		if got := names(ranking{now: now, costs: true}.order(list(circle[pair[0]], circle[pair[1]]))); got[0] != circle[pair[0]].Name {
			t.Errorf("%s does not go before %s", circle[pair[0]].Name, circle[pair[1]].Name)
		}
	}
	if diff := cmp.Diff([]string{"C", "B", "A"}, names(ranking{now: now, costs: true}.order(circle))); diff != "" {
		t.Error(diff)
	}
}

func TestDeletionCostCanBeSwitchedOff(t *testing.T) { // CLI-66
	s := snapshotOf(web(1), list(pod("a", cost("9")), pod("b", cost("1"))))
	if diff := cmp.Diff([]string{"delete b"}, lines(planPods(now, s).Steps)); diff != "" {
		t.Error(diff)
	}
	s.Disabled.PodDeletionCost = true
	if diff := cmp.Diff([]string{"delete a"}, lines(planPods(now, s).Steps)); diff != "" {
		t.Error(diff)
	}
}

func TestRS31DeletionCost(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "0": 0, "1": 1, "-1": -1, "10": 10, "2147483647": math.MaxInt32, "-2147483648": math.MinInt32,
		"2147483648": 0, "-2147483649": 0, "+5": 0, "007": 0, "00": 0, "1.0": 0, "1e3": 0, "0x1": 0, "1_000": 0, " 1": 0,
		"1 ": 0, "-": 0, "--1": 0, "-+1": 0, "many": 0, "١": 0,
	} {
		if got := deletionCost(text); got != want {
			t.Errorf("cost %q is %d, want %d", text, got, want)
		}
	}
}

// FuzzDeletionCost: a cost that counts is one that reads the same when written down again.
func FuzzDeletionCost(f *testing.F) {
	for _, seed := range []string{"", "0", "-1", "+5", "007", "2147483648", "1_000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := deletionCost(text)
		if got != 0 && strconv.Itoa(int(got)) != text && !strings.HasPrefix(text, "-0") {
			t.Errorf("%q counts as %d", text, got)
		}
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && strconv.FormatInt(n, 10) == text && int64(got) != n {
			t.Errorf("%q counts as %d", text, got)
		}
	})
}

func TestRS35AgeRatios(t *testing.T) {
	old, young, young2 := pod("old", created(4*time.Hour)), pod("young", created(time.Hour)), pod("unready", unready, created(time.Second))
	mine := list(old, young, young2)
	both := outcome(plan.Deleted, nil, old, young2)
	for _, c := range []struct {
		name string
		s    view
		did  plan.Outcome
		want []float64
	}{
		{"RS-35 age over the age of the youngest ready pod; pods that are not ready don't count", snapshotOf(web(1), mine), both,
			[]float64{4}},
		{"RS-35 the youngest itself", snapshotOf(web(2), mine), outcome(plan.Deleted, nil, young), []float64{1}},
		{"RS-35 nothing without a ranking", snapshotOf(web(0), mine), both, nil},
		{"RS-35 nothing for a deletion that failed", snapshotOf(web(1), mine), outcome(plan.Deleted, fmt.Errorf("no"), old), nil},
		{"RS-35 nothing for creations", snapshotOf(web(9), mine), outcome(plan.Created, nil, old), nil},
		{"RS-35 no division by zero",
			snapshotOf(web(1), list(old, pod("new", created(0)))), outcome(plan.Deleted, nil, old), nil},
		{"RS-35 real division, not of whole milliseconds",
			snapshotOf(web(1), list(pod("a", created(3*time.Microsecond)), pod("b", created(2*time.Microsecond)))),
			outcome(plan.Deleted, nil, pod("a", created(3*time.Microsecond))), []float64{1.5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, deletionAgeRatios(now, c.s, c.did)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// RankingIsATotalOrder: one order for each set of pods, whatever order they come in, and every pair goes as RS-31 says,
// or as its uids or its restarts say where the two are at odds (see ranking.order).
func TestRankingIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfNDistinct(podGen(), 2, 8, func(p *corev1.Pod) types.UID { return p.UID }).Draw(t, "pods")
		near := map[string]int{"n1": 1, "n2": rapid.IntRange(0, 2).Draw(t, "near")}
		k := ranking{now: now, near: near, costs: true}
		order := k.order(pods)
		if got := k.order(rapid.Permutation(pods).Draw(t, "shuffled")); !slices.Equal(got, order) {
			t.Fatalf("it depends on the order of the cache: %v, %v", names(order), names(got))
		}
		for i, a := range order {
			for _, b := range order[i+1:] {
				if before(b, a, near) && !circular(a, b) {
					t.Fatalf("%s went before %s", a.Name, b.Name)
				}
			}
		}
		// Without a third pod in between there is no circle.
		a, b := order[0], order[1]
		if got := k.order([]*corev1.Pod{b, a})[0]; before(a, b, near) != (got == a) {
			t.Fatalf("%s goes before %s", got.Name, a.Name)
		}
		// before itself is antisymmetric, and transitive outside of circles.
		for _, x := range order {
			for _, y := range order {
				if x != y && before(x, y, near) == before(y, x, near) {
					t.Fatalf("%s and %s", x.Name, y.Name)
				}
				for _, z := range order {
					if x != z && before(x, y, near) && before(y, z, near) && !before(x, z, near) &&
						!(circular(x, y) && circular(y, z)) {
						t.Fatalf("%s, %s, %s", x.Name, y.Name, z.Name)
					}
				}
			}
		}
	})
}

// before is RS-31 as it is written, for a pair.
func before(a, b *corev1.Pod, near map[string]int) bool {
	smallerUID := a.UID < b.UID
	if x, y := a.Spec.NodeName != "", b.Spec.NodeName != ""; x != y { // 1
		return !x
	}
	phases := map[corev1.PodPhase]int{corev1.PodUnknown: 1, corev1.PodRunning: 2}
	if x, y := phases[a.Status.Phase], phases[b.Status.Phase]; x != y { // 2
		return x < y
	}
	if x, y := podutil.Ready(a), podutil.Ready(b); x != y { // 3
		return !x
	}
	if x, y := deletionCost(a.Annotations[corev1.PodDeletionCost]), deletionCost(b.Annotations[corev1.PodDeletionCost]); x != y { // 4
		return x < y
	}
	if x, y := near[a.Spec.NodeName], near[b.Spec.NodeName]; a.Spec.NodeName != "" && x != y { // 5
		return x > y
	}
	if podutil.Ready(a) { // 6
		x, y := podutil.ReadyCondition(a).LastTransitionTime, podutil.ReadyCondition(b).LastTransitionTime
		if !x.Equal(&y) {
			return newer(x, y, smallerUID)
		}
	}
	if x, y := podutil.Restarts(a), podutil.Restarts(b); x != y { // 7
		return x[0] > y[0] || x[0] == y[0] && x[1] > y[1]
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) { // 8
		return newer(a.CreationTimestamp, b.CreationTimestamp, smallerUID)
	}
	return smallerUID
}

// newer compares two different times by the logarithm of their age (RS-31, RS-33).
func newer(a, b metav1.Time, smallerUID bool) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero()
	}
	bucket := func(t metav1.Time) float64 {
		age := now.Sub(t.Time)
		if age <= 0 {
			return -1
		}
		return math.Floor(math.Log2(float64(age)))
	}
	if x, y := bucket(a), bucket(b); x != y {
		return x < y
	}
	return smallerUID
}

// circular reports whether the pair may be part of a circle: both ready for about equally long.
func circular(a, b *corev1.Pod) bool { return podutil.Ready(a) && podutil.Ready(b) }

// podGen makes pods that are close to one another in rank. Their names are their uids.
func podGen() *rapid.Generator[*corev1.Pod] {
	ages := []time.Duration{-time.Hour, 0, 1, 59 * time.Second, 60 * time.Second, 60500 * time.Millisecond, time.Hour}
	times := append([]metav1.Time{{}}, timesOf(ages)...)
	return rapid.Custom(func(t *rapid.T) *corev1.Pod {
		name := rapid.StringMatching("[a-h][a-h]").Draw(t, "uid")
		p := pod(name,
			node(rapid.SampledFrom([]string{"n1", "n1", "n2", ""}).Draw(t, "node")),
			phase(rapid.SampledFrom([]corev1.PodPhase{"Running", "Running", "Pending", "Unknown", ""}).Draw(t, "phase")),
			createdAt(rapid.SampledFrom(times).Draw(t, "created")),
			cost(rapid.SampledFrom([]string{"", "", "1", "-1", "x"}).Draw(t, "cost")),
			restarted(rapid.Int32Range(0, 1).Draw(t, "restarts")),
			initRestarted("s", ptr.To(corev1.ContainerRestartPolicyAlways), rapid.Int32Range(0, 1).Draw(t, "sidecar restarts")),
		)
		if rapid.IntRange(0, 3).Draw(t, "ready") == 0 {
			unready(p)
		} else {
			readySince(rapid.SampledFrom(times).Draw(t, "since"))(p)
		}
		return p
	})
}

func timesOf(ages []time.Duration) (times []metav1.Time) {
	for _, age := range ages {
		times = append(times, ago(age))
	}
	return times
}

// Ranking a large set must not take a noticeable time.
func BenchmarkRank5000(b *testing.B) {
	var all []*corev1.Pod
	for i := range 5000 {
		all = append(all, pod(fmt.Sprintf("%04d", i*7919%5000), ready(time.Duration(i)*time.Second), restarted(int32(i%3))))
	}
	for b.Loop() {
		ranking{now: now, costs: true}.order(all)
	}
}
