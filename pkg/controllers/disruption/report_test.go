package disruption

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A pod that changes while the cache is read may be found twice. It counts once.
func TestPodsCountOnce(t *testing.T) {
	three := podsOf(set("web-a", 3), 3)
	s := newSelection("b", append(three, podsOf(set("web-a", 3), 1, unready)...))
	if s.Counts.Pods != 3 || s.Counts.Ready != 3 || s.Counts.Owners[controllerOf(three[0])].Pods != 3 {
		t.Errorf("DIS-10 %+v", s.Counts)
	}
}

// A failure of an owner without pods is told, too.
func TestFirstFailureWithoutPods(t *testing.T) {
	failed := map[types.UID]error{"b": errors.New("second"), "a": errors.New("first")}
	if got := firstFailure(newSelection("b", nil), failed); got != "first" {
		t.Errorf("DIS-13 %q", got)
	}
}

// A row is a sentence: a budget like this for pods like these allows so many disruptions, with so many healthy, desired and expected.
func TestStatus(t *testing.T) {
	three := set("web-a", 3)
	ready := podsOf(three, 3)
	for _, c := range []struct {
		name   string
		budget *policyv1.PodDisruptionBudget
		sets   []*appsv1.ReplicaSet
		pods   []*corev1.Pod
		want   string
	}{
		{"DIS-17 one may be unavailable", web(), []*appsv1.ReplicaSet{three}, ready, "1 3 2 3"},
		{"DIS-17 one is unavailable", web(), []*appsv1.ReplicaSet{three}, ready[:2], "0 2 2 3"},
		{"DIS-17 more may be unavailable than there are", web(maxUnavailable("5")), []*appsv1.ReplicaSet{three}, ready, "3 3 0 3"},
		{"DIS-17 a share is rounded up", web(maxUnavailable("34%")), []*appsv1.ReplicaSet{three}, ready, "2 3 1 3"},
		{"DIS-17 none may be unavailable, of pods whose owner has no scale", web(maxUnavailable("0")), nil,
			podsOf(three, 3, ownedBy("apps/v1", "DaemonSet", "d")), "0 3 3 3"},
		{"DIS-17 nor any share of them", web(maxUnavailable("0%")), nil, podsOf(three, 3, ownedBy("example.com/v1", "Widget", "w")),
			"0 3 3 3"},
		{"DIS-18a an integer counts pods, not what is asked for", web(minAvailable("2")), nil, ready[:2], "0 2 2 2"},
		{"DIS-18a an integer may be more than there are", web(minAvailable("9")), nil, ready, "0 3 9 3"},
		{"DIS-18a, DIS-50 pods that have ended are expected", web(minAvailable("1")), nil,
			append(podsOf(set("web-b", 1), 1, unready, plantest.Phase(corev1.PodSucceeded)), ready...), "2 3 1 4"},
		{"DIS-18b a share is rounded up", web(minAvailable("34%")), []*appsv1.ReplicaSet{three}, ready, "1 3 2 3"},
		{"DIS-18c neither", web(minAvailable("")), nil, ready, "0 3 0 0"},
		{"DIS-10, DIS-22 pods that are being deleted are not healthy", web(minAvailable("1")), nil, podsOf(three, 3, terminating),
			"0 0 1 3"},
		{"DIS-22 the phase of a ready pod does not matter", web(minAvailable("1")), nil, podsOf(three, 3, plantest.Phase(corev1.PodFailed)),
			"2 3 1 3"},
		{"DIS-22 pods that are not ready", web(minAvailable("1")), nil, podsOf(three, 3, unready), "0 0 1 3"},
		{"DIS-6 no selector", web(selecting("none")), []*appsv1.ReplicaSet{three}, ready, "0 0 0 0"},
		{"DIS-6 the empty selector", web(selecting("all")), []*appsv1.ReplicaSet{three}, podsOf(three, 3, labeled("other")), "1 3 2 3"},
		{"DIS-6 an expression", web(selecting("app in (web,x),!old")), []*appsv1.ReplicaSet{three}, ready, "1 3 2 3"},
		{"DIS-12 no pods", web(), nil, podsOf(three, 3, labeled("other")), "0 0 0 0"},
		{"DIS-26c all pods are gone, and none is needed", web(minAvailable("0")), nil, nil, "0 0 0 0"},
		{"DIS-14 pods without an owner are healthy and not expected", web(), []*appsv1.ReplicaSet{three},
			append(podsOf(set("web-b", 1), 1, bare), ready...), "2 4 2 3"},
		{"DIS-23 a pod that is to be deleted", web(disruptedAgo("web-a-0", time.Second)), []*appsv1.ReplicaSet{three}, ready, "0 2 2 3"},
		{"DIS-23 a pod that is to be deleted and was not healthy", web(disruptedAgo("web-a-0", time.Second)), []*appsv1.ReplicaSet{three},
			append(podsOf(three, 1, unready), ready[1:]...), "0 2 2 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.budget)
			b.put(t, objects(c.sets)...)
			b.put(t, objects(c.pods)...)
			after := written(reportStatus(now, b.observed(t), plan.Outcome{}))
			if after == nil {
				after = &c.budget.Status
			}
			if got := numbers(*after); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if after.ObservedGeneration != c.budget.Generation {
				t.Errorf("DIS-26e generation %d", after.ObservedGeneration)
			}
		})
	}
}

// DIS-24, DIS-25, DIS-41, DIS-51: what becomes of the entries of disruptedPods.
func TestDisruptedPods(t *testing.T) {
	three := set("web-a", 3)
	for _, c := range []struct {
		name    string
		ago     time.Duration
		pods    []*corev1.Pod
		kept    int
		healthy int32
		requeue time.Duration
		event   string
	}{
		{"kept while the pod lives", 30 * time.Second, podsOf(three, 3), 1, 2, 90 * time.Second, ""},
		{"kept until the last moment", 2*time.Minute - time.Second, podsOf(three, 3), 1, 2, time.Second, ""},
		{"DIS-51 dropped when it is two minutes old", 2 * time.Minute, podsOf(three, 3), 0, 3, 0,
			"web-a-0: Warning NotDeleted Pod was expected by PDB shop/web to be deleted but it wasn't"},
		{"dropped when the pod is being deleted", time.Second, podsOf(three, 3, terminating), 0, 0, 0, ""},
		{"dropped when the pod is being deleted, however late", time.Hour, podsOf(three, 3, terminating), 0, 0, 0, ""},
		{"dropped when the pod is gone", time.Second, podsOf(three, 3)[1:], 0, 2, 0, ""},
		{"dropped when the pod is not selected", time.Second, append(podsOf(three, 1, labeled("x")), podsOf(three, 3)[1:]...), 0, 2, 0, ""},
		{"DIS-26 an entry from the future", -time.Minute, podsOf(three, 3), 1, 2, 3 * time.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(disruptedAgo("web-a-0", c.ago)), three)
			b.put(t, objects(c.pods)...)
			p := reportStatus(now, b.observed(t), plan.Outcome{})
			after := written(p)
			if after == nil || len(after.DisruptedPods) != c.kept || after.CurrentHealthy != c.healthy || p.Requeue != c.requeue ||
				events(p) != c.event {
				t.Errorf("%+v, requeued after %v, %q", after, p.Requeue, events(p))
			}
			if after != nil && c.kept == 0 && after.DisruptedPods != nil {
				t.Error("DIS-26d an empty map is written")
			}
		})
	}
}

// DIS-26f: the condition follows the number of allowed disruptions, and its time follows the condition.
func TestCondition(t *testing.T) {
	three := set("web-a", 3)
	b := newBench(t, web(), three)
	b.put(t, objects(podsOf(three, 3))...)
	step := func(after time.Duration) *policyv1.PodDisruptionBudgetStatus {
		s := b.observed(t)
		if st := written(reportStatus(now.Add(after), s, plan.Outcome{})); st != nil {
			budget := s.Budget.DeepCopy()
			budget.Status = *st
			b.put(t, budget)
			return st
		}
		return nil
	}
	first := step(0)
	if condition(*first) != "True SufficientPods" || first.Conditions[0].ObservedGeneration != 2 {
		t.Errorf("%+v", first.Conditions)
	}
	if st := step(time.Second); st != nil {
		t.Errorf("DIS-26h the same is written again: %+v", st)
	}
	b.put(t, podsOf(three, 1, unready)[0])
	if st := step(time.Minute); condition(*st) != "False InsufficientPods" ||
		!st.Conditions[0].LastTransitionTime.Equal(new(metav1.NewTime(now.Add(time.Minute)))) {
		t.Errorf("%+v", st.Conditions)
	}
	other := b.observed(t).Budget.DeepCopy()
	other.Status.Conditions = append(other.Status.Conditions, metav1.Condition{Type: "Other"})
	b.put(t, other, podsOf(three, 3, unready)[1])
	if st := step(time.Hour); len(st.Conditions) != 2 ||
		!st.Conditions[0].LastTransitionTime.Equal(new(metav1.NewTime(now.Add(time.Minute)))) {
		t.Errorf("other conditions are kept, and the time when nothing else changes: %+v", st.Conditions)
	}
}

// DIS-27: when the controller does not know, it allows nothing, and says why. What it knew stays.
func TestDIS27FailSafe(t *testing.T) {
	three := set("web-a", 3)
	for _, c := range []struct {
		name, want string
		budget     []budgetEdit
		pods       []*corev1.Pod
		event      string
	}{
		{"DIS-11 a selector that no server accepts", `"Perhaps" is not a valid label selector operator`,
			[]budgetEdit{selecting("? perhaps")}, nil, "NoPods Failed to get pods: "},
		{"DIS-20g an unknown kind", `no matches for kind "Gadget" in version "x.example.com/v1"`, nil,
			podsOf(three, 1, ownedBy("x.example.com/v1", "Gadget", "g")),
			"CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: no matches"},
		{"DIS-20h a kind without a scale", "daemonsets.apps does not implement the scale subresource", nil,
			podsOf(three, 1, ownedBy("apps/v1", "DaemonSet", "d")), "CalculateExpectedPodCountFailed "},
		{"DIS-20i an owner that is gone", `found no controllers for pod "web-a-0"`, nil,
			podsOf(three, 3, ownedBy("example.com/v1", "Widget", "w")), "CalculateExpectedPodCountFailed "},
		{"a share that is none", "invalid value for IntOrString", []budgetEdit{maxUnavailable("many")}, podsOf(three, 3, bare),
			"CalculateExpectedPodCountFailed "},
	} {
		t.Run(c.name, func(t *testing.T) {
			edits := append([]budgetEdit{status(1, 3, 2, 3), disruptedAgo("gone", time.Second)}, c.budget...)
			b := newBench(t, web(edits...))
			b.put(t, objects(c.pods)...)
			s := b.observed(t)
			s.Budget.Status.ObservedGeneration = 1
			p := reportStatus(now, s, plan.Outcome{})
			after := written(p)
			if after == nil {
				t.Fatal("nothing is written")
			}
			if numbers(*after) != "0 3 2 3" || after.ObservedGeneration != 1 || after.Conditions[0].ObservedGeneration != 1 ||
				len(after.DisruptedPods) != 1 {
				t.Errorf("%+v", after)
			}
			if got := condition(*after); !strings.HasPrefix(got, "False SyncFailed ") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if p.Requeue != firstRetry || p.When.Quiet != 0 {
				t.Errorf("DIS-45 tried again after %v, debounced for %v", p.Requeue, p.When.Quiet)
			}
			if got := events(planned(now, s)); !strings.Contains(got, "web: Warning "+c.event) {
				t.Errorf("%q, want %q", got, c.event)
			}
		})
	}
}

// DIS-45: a failure is retried ever more rarely, at least once a minute, and the message fits into the condition.
func TestDIS45RetriesOfAFailure(t *testing.T) {
	s := snapshot{Budget: web(), SelectorError: strings.Repeat("x", 40_000)}
	for retries, want := range map[int]time.Duration{0: 250 * time.Millisecond, 3: 2 * time.Second, 8: time.Minute, 1000: time.Minute} {
		s.Retries = retries
		p := reportStatus(now, s, plan.Outcome{})
		if p.Requeue != want || len(written(p).Conditions[0].Message) != 32768 {
			t.Errorf("after %d failures: %v, want %v", retries, p.Requeue, want)
		}
	}
}

// DIS-27: a status that could not be written is followed by one that allows nothing, if the server's may allow too much.
func TestDIS27AfterAFailedWrite(t *testing.T) {
	three := set("web-a", 3)
	for _, c := range []struct {
		name    string
		before  budgetEdit
		pods    []*corev1.Pod
		want    string
		message string
	}{
		{"too much may be allowed", status(2, 4, 2, 4), podsOf(three, 3), "0 4 2 4", "False SyncFailed change: no"},
		{"nothing is allowed", status(0, 2, 2, 4), podsOf(three, 3), "1 3 2 3", "True SufficientPods"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(c.before), three)
			b.put(t, objects(c.pods)...)
			o, err := b.observe(t.Context(), request{Key: webKey, Now: now, Reader: b, Failure: errors.New("change: no")})
			p := reportStatus(now, o.Snapshot, plan.Outcome{})
			after := written(p)
			if p.When.Quiet > 0 {
				t.Errorf("it waits for %v", p.When.Quiet)
			}
			if err != nil || after == nil || numbers(*after) != c.want || condition(*after) != c.message {
				t.Errorf("%+v", after)
			}
		})
	}
	b := newBench(t, web(), three)
	b.put(t, objects(podsOf(three, 3))...)
	right := b.observed(t).Budget.DeepCopy()
	right.Status = *written(reportStatus(now, b.observed(t), plan.Outcome{}))
	b.put(t, right)
	o, _ := b.observe(t.Context(), request{Key: webKey, Now: now, Reader: b, Failure: errors.New("no")})
	if p := reportStatus(now, o.Snapshot, plan.Outcome{}); !p.Empty() {
		t.Errorf("a status that is right is replaced: %s", p.Why)
	}
}

// DIS-29: what evictions depend on is written at once, the rest may wait.
func TestDIS29Debounce(t *testing.T) {
	three := set("web-a", 3)
	for _, c := range []struct {
		name   string
		before budgetEdit
		waits  bool
	}{
		{"one disruption becomes possible", status(0, 2, 2, 3), false},
		{"another disruption becomes possible", func(b *policyv1.PodDisruptionBudget) {
			maxUnavailable("2")(b)
			status(1, 2, 1, 3)(b)
		}, true},
		{"fewer disruptions are possible", status(2, 4, 2, 3), false},
		{"the spec has changed", func(b *policyv1.PodDisruptionBudget) { status(1, 2, 1, 3)(b); b.Generation++ }, false},
		{"DIS-31 fewer pods are healthy than have to be", func(b *policyv1.PodDisruptionBudget) {
			minAvailable("4")(b)
			status(0, 4, 4, 4)(b)
		}, false},
		{"DIS-31 still fewer", func(b *policyv1.PodDisruptionBudget) {
			minAvailable("5")(b)
			status(0, 4, 5, 4)(b)
		}, true},
		{"only counts have changed", status(1, 4, 3, 4), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(c.before), three)
			b.put(t, objects(podsOf(three, 3))...)
			p := reportStatus(now, b.observed(t), plan.Outcome{})
			if p.Empty() || (p.When.Quiet > 0) != c.waits {
				t.Errorf("debounced for %v", p.When.Quiet)
			}
		})
	}
}

// DIS-37 to DIS-40, DIS-53: events are recorded when what they say has changed.
func TestEvents(t *testing.T) {
	three := set("web-a", 3)
	const unmanaged = `web: Warning UnmanagedPods The selector "app=web" matches unmanaged pods: no controller says how many of them ` +
		`there should be, so the status of the budget cannot be calculated correctly. Set .spec.minAvailable to an integer.`
	for _, c := range []struct {
		name   string
		budget *policyv1.PodDisruptionBudget
		pods   []*corev1.Pod
		want   string
	}{
		{"DIS-37 no pods", web(), nil, "web: Normal NoPods No matching pods found"},
		{"DIS-37 still no pods, after a takeover", web(status(0, 0, 0, 0)), nil, ""},
		{"pods", web(), podsOf(three, 3), ""},
		{"DIS-40 pods without an owner", web(), podsOf(three, 3, bare), unmanaged},
		{"DIS-40 pods without an owner do not matter to an integer", web(minAvailable("1")), podsOf(three, 3, bare), ""},
		{"DIS-39 the same failure after a takeover", web(func(b *policyv1.PodDisruptionBudget) {
			b.Status.Conditions = failSafe(now, b, `found no controllers for pod "web-a-0"`).Conditions
		}), podsOf(set("web-a", 1), 1, ownedBy("example.com/v1", "Widget", "w")), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.budget, three)
			b.put(t, objects(c.pods)...)
			o, _ := b.observe(t.Context(), request{Key: webKey, Now: now, Reader: b})
			if got := events(planned(now, o.Snapshot)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			again, _ := b.observe(t.Context(), request{Key: webKey, Now: now, Reader: b, Memory: remembered(o)})
			if got := events(planned(now, again.Snapshot)); got != "" {
				t.Errorf("once more: %q", got)
			}
		})
	}
}

// DIS-33 to DIS-35, DIS-54: a pod that was to be disrupted and was not says so no longer.
func TestStaleDisruption(t *testing.T) {
	one := set("web-a", 1)
	const eviction = "EvictionByEvictionAPI"
	for _, c := range []struct {
		name    string
		edits   []podEdit
		cleared bool
		requeue time.Duration
	}{
		{"DIS-34 two minutes ago", []podEdit{disruptedSince(2*time.Minute, eviction)}, true, 0},
		{"DIS-34 a minute ago", []podEdit{disruptedSince(time.Minute, eviction)}, false, time.Minute},
		{"DIS-33 being deleted", []podEdit{disruptedSince(time.Hour, eviction), terminating}, false, 0},
		{"DIS-33 by the kubelet", []podEdit{disruptedSince(time.Hour, "TerminationByKubelet")}, false, 0},
		{"DIS-33 a pod that has ended", []podEdit{disruptedSince(time.Hour, eviction), plantest.Phase(corev1.PodFailed)}, false, 0},
		{"DIS-33 no longer true",
			[]podEdit{disruptedSince(time.Hour, eviction), func(p *corev1.Pod) { p.Status.Conditions[1].Status = "False" }}, false, 0},
		{"nothing was said", nil, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := podsOf(one, 1, c.edits...)[0]
			p.Generation = 7
			got := planPod(now, podSnapshot{Pod: p})
			if got.Requeue != c.requeue || got.Empty() == c.cleared {
				t.Fatalf("%+v", got)
			}
			if !c.cleared {
				return
			}
			change := got.Steps[0].(plan.Change)
			after := change.New.(*corev1.Pod).Status.Conditions[1]
			want := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(now), ObservedGeneration: 7}
			if after != want || !change.CheckVersion || change.Subresource != plan.Status ||
				p.Status.Conditions[1].Status != corev1.ConditionTrue {
				t.Errorf("%+v, want %+v", after, want)
			}
		})
	}
}

// DIS-7, DIS-42, DIS-47: a pod that several budgets select is warned of once.
func TestOverlappingBudgets(t *testing.T) {
	one := set("web-a", 1)
	p := podsOf(one, 1)[0]
	b := newBench(t, web(), web(called("all"), selecting("all")), p)
	const want = "web-a-0: Warning MultiplePodDisruptionBudgets " +
		`Pod "shop"/"web-a-0" matches multiple PodDisruptionBudgets ["all" "web"]. Overlapping PDBs are unsupported for eviction.`
	key := plan.Key{Namespace: p.Namespace, Name: p.Name}
	o, err := b.observePod(t.Context(), podRequest{Key: key})
	if got := events(planPod(now, o.Snapshot)); err != nil || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	again, _ := b.observePod(t.Context(), podRequest{Key: key, Memory: o.Memory})
	if got := events(planPod(now, again.Snapshot)); got != "" {
		t.Errorf("once more: %q", got)
	}
	b.remove(t, web())
	alone, _ := b.observePod(t.Context(), podRequest{Key: key, Memory: o.Memory})
	if got := events(planPod(now, alone.Snapshot)); got != "" || alone.Memory != nil {
		t.Errorf("of one budget: %q, %+v", got, alone.Memory)
	}
	b.remove(t, p)
	if gone, _ := b.observePod(t.Context(), podRequest{Key: key}); gone.Exists {
		t.Error("DIS-36 a pod that is gone exists")
	}
}

// DIS-19: owners count once, whatever they are.
func TestScales(t *testing.T) {
	deployment := plantest.Deployment("web", 5)
	sets := []*appsv1.ReplicaSet{set("web-a", 3, plantest.OwnedBy(deployment)), set("web-b", 2, plantest.OwnedBy(deployment)),
		set("web-c", 7)}
	stateful := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", UID: "uid-s"}}
	stateful.Spec.Replicas = new(int32(11))
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "rc", UID: "uid-rc"}}
	rc.Spec.Replicas = new(int32(13))
	widget := set("w", 17)
	named := func(name string) podEdit { return func(p *corev1.Pod) { p.Name = name } }
	all := map[string]*corev1.Pod{
		"a": podsOf(sets[0], 1, named("a"))[0], "b": podsOf(sets[1], 1, named("b"))[0], "c": podsOf(sets[2], 1, named("c"))[0],
		"s":     podsOf(sets[2], 1, named("s"), ownedBy("apps/v1", "StatefulSet", "s"))[0],
		"rc":    podsOf(sets[2], 1, named("rc"), ownedBy("v1", "ReplicationController", "rc"))[0],
		"w":     podsOf(sets[2], 1, named("w"), ownedBy("apps/v1", "ReplicaSet", "w"))[0],
		"alien": podsOf(sets[2], 1, named("alien"), ownedBy("apps.example.com/v1", "StatefulSet", "s"))[0],
		"other": podsOf(sets[2], 1, named("other"), ownedBy("apps/v1", "StatefulSet", "s"),
			func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" })[0],
	}
	for _, c := range []struct {
		name, pods string
		want       int64
		fails      string
	}{
		{"DIS-20a a ReplicationController", "rc", 13, ""},
		{"DIS-20b two ReplicaSets of a Deployment", "a b", 5, ""},
		{"DIS-20c a ReplicaSet", "c", 7, ""},
		{"DIS-20d a StatefulSet", "s", 11, ""},
		{"DIS-20e what is not in the caches is read live", "w", 17, ""},
		{"DIS-19 all of them", "a b c rc s w", 53, ""},
		{"DIS-20d a kind of the same name in another group", "alien", 0,
			`no matches for kind "StatefulSet" in version "apps.example.com/v1"`},
		{"DIS-20i an owner of the same name with another uid", "c other", 7, `found no controllers for pod "other"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(), deployment, stateful, rc)
			b.put(t, objects(sets)...)
			widget.UID = "uid-w"
			for _, o := range []plan.Object{widget, stateful} {
				if _, err := b.Server.Put(o.DeepCopyObject().(plan.Object)); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range strings.Fields(c.pods) {
				p := all[name].DeepCopy()
				p.UID, p.Labels = types.UID(name), map[string]string{"app": "web"}
				b.put(t, p)
			}
			if s := b.observed(t); s.Scale.Replicas != c.want || s.Scale.Error != c.fails {
				t.Errorf("%+v", s.Scale)
			}
		})
	}
}
