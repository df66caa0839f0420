package disruption

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var (
	drawLimit = rapid.SampledFrom([]budgetEdit{
		minAvailable("0"), minAvailable("2"), minAvailable("50%"), minAvailable(""), maxUnavailable("0"), maxUnavailable("1"),
		maxUnavailable("34%"),
	})
	drawSelector = rapid.SampledFrom([]budgetEdit{
		selecting("app=web"), selecting("app in (web,x)"), selecting("all"), selecting("app notin (x)"), selecting("none"),
		selecting("? bad"),
	})
)

// drawPod is a pod that one of two owners controls, or none.
func drawPod(t *rapid.T, name string) *corev1.Pod {
	set := rapid.SampledFrom([]*appsv1.ReplicaSet{set("web-a", 3), set("web-b", 2)}).Draw(t, "set")
	edits := []podEdit{func(p *corev1.Pod) {
		p.Name, p.UID = name, types.UID(fmt.Sprint(name, rapid.IntRange(0, 1).Draw(t, "life")))
	}, labeled(rapid.SampledFrom([]string{"web", "web", "x"}).Draw(t, "app"))}
	for what, edit := range map[string]podEdit{"unready": unready, "terminating": terminating, "bare": bare} {
		if rapid.IntRange(0, 3).Draw(t, what) == 0 {
			edits = append(edits, edit)
		}
	}
	return podsOf(set, 1, edits...)[0]
}

func drawBudget(t *rapid.T) *policyv1.PodDisruptionBudget {
	b := web(drawLimit.Draw(t, "limit"), drawSelector.Draw(t, "selector"))
	for name, ago := range rapid.MapOfN(rapid.StringMatching("[a-e]"), rapid.IntRange(-10, 130), 0, 3).Draw(t, "disrupted") {
		disruptedAgo(name, time.Duration(ago)*time.Second)(b)
	}
	return b
}

// crowded is a bench with a budget and a few pods.
func crowded(t *rapid.T) *bench {
	b := newBench(t, drawBudget(t), set("web-a", 3), set("web-b", 2))
	for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching("[a-e]"), 0, 5, rapid.ID[string]).Draw(t, "pods") {
		b.put(t, drawPod(t, name))
	}
	return b
}

// However pods change, however late the controller is told, and whatever it has remembered: it counts what a look at all pods counts.
func TestSelectionsCountWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := crowded(t)
		b.large = rapid.SampledFrom([]int{0, 3}).Draw(t, "large")
		b.most = rapid.SampledFrom([]int{0, 4, mostRemembered}).Draw(t, "most")
		var memory *memory
		var untold []reconcile.Change
		look := func(told []reconcile.Change, missed bool) snapshot {
			o, err := b.observe(t.Context(), request{Key: webKey, Now: now, Reader: b, Memory: memory, Changes: told, Missed: missed})
			if err != nil {
				t.Fatal(err)
			}
			memory = remembered(o)
			return o.Snapshot
		}
		change := func(name string, after *corev1.Pod) {
			before := b.pods.Get("shop", name)
			var c reconcile.Change
			if before != nil {
				c.Before = before
			}
			if after != nil {
				c.After = after
				b.put(t, after)
			} else if before != nil {
				b.remove(t, before)
			}
			if (before != nil || after != nil) && slices.Contains(b.enqueuedByPod(c.Before, c.After), webKey) {
				untold = append(untold, c)
			}
		}
		name := rapid.StringMatching("[a-e]")
		t.Repeat(map[string]func(*rapid.T){
			"put":    func(t *rapid.T) { n := name.Draw(t, "name"); change(n, drawPod(t, n)) },
			"remove": func(t *rapid.T) { change(name.Draw(t, "name"), nil) },
			"edit the budget": func(t *rapid.T) {
				after := drawBudget(t)
				after.Generation = b.budgets.Get("shop", "web").Generation + 1
				b.put(t, after)
			},
			"look before all is told": func(t *rapid.T) {
				n := rapid.IntRange(0, len(untold)).Draw(t, "told")
				look(untold[:n], false)
				untold = untold[n:]
			},
			"look": func(t *rapid.T) {
				first := rapid.IntRange(0, len(untold)).Draw(t, "missed")
				got := look(untold[first:], first > 0)
				untold = nil
				kept := memory
				memory = nil
				want := look(nil, false)
				memory = kept
				want.Reported = got.Reported
				want.Retries = got.Retries
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("-all +changes:\n%s", diff)
				}
			},
		})
	})
}

// A selection is never changed: Observe may run twice with the same one.
func TestSelectionsAreNotChanged(t *testing.T) {
	three := set("web-a", 3)
	pods := podsOf(three, 3)
	before := newSelection("b", pods)
	same := newSelection("b", pods)
	gone := before.with(map[string]*corev1.Pod{pods[0].Name: nil, "unknown": nil})
	back := gone.with(map[string]*corev1.Pod{pods[0].Name: pods[0]})
	if !cmp.Equal(before, same) {
		t.Errorf("%s", cmp.Diff(same, before))
	}
	if gone.Counts.Pods != 2 || gone.Counts.Owners[three.UID].Pods != 2 || !cmp.Equal(back.Counts, before.Counts) {
		t.Errorf("%+v, %+v", gone.Counts, back.Counts)
	}
	many := map[string]*corev1.Pod{}
	for i := range 2 * mostLater {
		p := podsOf(three, 1, unready)[0]
		p.Name = fmt.Sprint("x", i)
		many[p.Name] = p
	}
	merged := gone.with(many)
	names := maps.Collect(merged.Pods.All())
	if merged.Pods.Later != nil || len(merged.Pods.Base) != 2+2*mostLater || len(names) != merged.Counts.Pods || merged.Counts.Ready != 2 {
		t.Errorf("%d pods, %+v", len(names), merged.Counts)
	}
}

// No status allows more than there are healthy pods to spare, nor forgets an eviction that may still come; and what is written
// leaves nothing to write.
func TestNothingIsOverdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := crowded(t)
		s := b.observed(t)
		p := reportStatus(now, s, plan.Outcome{})
		after := written(p)
		if after == nil {
			return
		}
		spare := 0
		for _, pod := range b.pods.In("shop") {
			since, disrupted := s.Budget.Status.DisruptedPods[pod.Name]
			_, kept := after.DisruptedPods[pod.Name]
			selected := slices.Contains(b.enqueuedByPod(nil, pod), webKey)
			disrupted = disrupted && selected && pod.DeletionTimestamp == nil && now.Before(since.Add(deletedWithin))
			if disrupted && !kept && condition(*after) != "False SyncFailed" {
				t.Fatalf("the eviction of %s is forgotten", pod.Name)
			}
			if selected && healthy(pod) && !disrupted {
				spare++
			}
		}
		if after.DisruptionsAllowed > 0 && int(after.DisruptionsAllowed) > spare-int(after.DesiredHealthy) || after.DisruptionsAllowed < 0 {
			t.Fatalf("%d healthy pods: %s", spare, numbers(*after))
		}
		again := s.Budget.DeepCopy()
		again.Status = *after
		b.put(t, again)
		if more := reportStatus(now, b.observed(t), plan.Outcome{}); !more.Empty() {
			t.Fatalf("%s, and then %s", p.Why, more.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := crowded(t).observed(t)
		restored := plantest.Restored(t, s)
		a, b := reportStatus(now, s, plan.Outcome{}), reportStatus(now, restored, plan.Outcome{})
		if a.Why != b.Why || a.Requeue != b.Requeue || !cmp.Equal(written(a), written(b)) ||
			events(planned(now, s)) != events(planned(now, restored)) {
			t.Errorf("%s, and %s after it was stored", a.Why, b.Why)
		}
	})
}

// The caches keep of pods and workloads only what the controller declares.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		whole := crowded(t)
		thin := newBench(t, whole.budgets.Get("shop", "web"))
		for _, set := range whole.workloads.ReplicaSets.In("shop") {
			o, err := kept.Project(set)
			if err != nil {
				t.Fatal(err)
			}
			thin.put(t, o.(plan.Object))
			if a, b := workloadOf(set), workloadOf(o.(plan.Object)); !cmp.Equal(a, b, cmp.AllowUnexported(workload{})) {
				t.Errorf("%+v, %+v", a, b)
			}
		}
		for _, pod := range whole.pods.In("shop") {
			disruptedSince(time.Hour, "x")(pod)
			projected := kept.ProjectPod(pod)
			thin.put(t, projected)
			if a, b := planPod(now, podSnapshot{Pod: pod}), planPod(now, podSnapshot{Pod: projected}); a.Why != b.Why ||
				a.Empty() != b.Empty() {
				t.Errorf("%q, %q", a.Why, b.Why)
			}
		}
		a, b := reportStatus(now, whole.observed(t), plan.Outcome{}), reportStatus(now, thin.observed(t), plan.Outcome{})
		if a.Why != b.Why || !cmp.Equal(written(a), written(b)) {
			t.Errorf("%s with all fields, %s with the cached ones", a.Why, b.Why)
		}
	})
}
