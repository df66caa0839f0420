package podgc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// unheld takes the finalizers off pods.
func unheld(all []*corev1.Pod) []*corev1.Pod {
	for _, p := range all {
		p.Finalizers = nil
	}
	return all
}

// pod builds a running pod from words: a phase in lower case, "evicted", "deleting", "forced", "on=NODE", "in=NAMESPACE",
// "age=DURATION" at epoch, "ended=DURATION" at epoch, "tracked", "disrupted".
func pod(name, words string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 3,
			CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour)),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	at := func(age string) metav1.Time {
		d, err := time.ParseDuration(age)
		if err != nil {
			panic(err)
		}
		return metav1.NewTime(epoch.Add(-d))
	}
	for word := range strings.FieldsSeq(words) {
		word, value, _ := strings.Cut(word, "=")
		switch word {
		case "pending", "succeeded", "failed", "unknown":
			p.Status.Phase = corev1.PodPhase(strings.ToUpper(word[:1]) + word[1:])
		case "phaseless":
			p.Status.Phase = ""
		case "evicted":
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		case "deleting":
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, new(int64(30))
		case "forced":
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, new(int64)
			p.Finalizers = append(p.Finalizers, "example.com/hold")
		case "on":
			p.Spec.NodeName = value
		case "in":
			p.Namespace = value
		case "age":
			p.CreationTimestamp = at(value)
		case "ended":
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(value),
			})
		case "tracked":
			p.Finalizers = append(p.Finalizers, "batch.kubernetes.io/job-tracking")
		case "disrupted", "undisrupted":
			status := corev1.ConditionTrue
			if word == "undisrupted" {
				status = corev1.ConditionFalse
			}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: status, Reason: "PreemptionByScheduler", LastTransitionTime: at("1m"),
			})
		default:
			panic(word)
		}
	}
	return p
}

// pods builds pods from "name: words" each.
func pods(descriptions ...string) (all []*corev1.Pod) {
	for _, d := range descriptions {
		name, words, _ := strings.Cut(d, ":")
		all = append(all, pod(name, words))
	}
	return all
}

func node(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: ready},
		}
	}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "any", Effect: corev1.TaintEffectNoExecute})
	}
	return n
}

// writes renders a plan's writes in order: "fail a, delete a, delete b".
func writes(p plan.Plan) string {
	var all []string
	var walk func(steps []plan.Step)
	walk = func(steps []plan.Step) {
		for _, s := range steps {
			switch s := s.(type) {
			case plan.Change:
				all = append(all, "fail "+s.New.GetName())
			case plan.Delete:
				for _, o := range s.Objects {
					all = append(all, "delete "+o.GetName())
				}
			case plan.Each:
				for _, sequence := range s.Sequences {
					walk(sequence)
				}
			}
		}
	}
	walk(p.Steps)
	return strings.Join(all, ", ")
}

func TestTerminated(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy policy
		pods   []*corev1.Pod
		want   string
	}{
		{"PGC-4: as many as may stay, stay", policy{Threshold: 2}, pods("a:failed", "b:succeeded"), ""},
		{"PGC-4: one too many goes", policy{Threshold: 1}, pods("a:failed age=2h", "b:succeeded age=1h"), "delete a"},
		{"PGC-4: pods being deleted count and go", policy{Threshold: 1}, pods("a:failed age=2h", "b:succeeded deleting age=3h"),
			"delete b"},
		{"PGC-4: what only finalizers hold counts and is not deleted again", policy{Threshold: 1},
			pods("a:failed age=2h", "b:succeeded forced age=3h"), ""},
		{"PGC-5: evicted first", policy{Threshold: 1}, pods("a:failed age=3h", "b:evicted age=1h", "c:failed age=2h"),
			"delete b, delete a"},
		{"PGC-5: then the oldest, then by name", policy{Threshold: 1}, pods("c:failed", "b:failed", "a:failed", "d:succeeded age=2h"),
			"delete d, delete a, delete b"},
		{"PGC-16, PGC-19: no patch", policy{Threshold: 1}, pods("a:failed on=gone age=2h", "b:failed"), "delete a"},
		{"PGC-24: threshold zero keeps all", policy{}, pods("a:failed", "b:failed"), ""},
		{"PGC-24: threshold below zero keeps all", policy{Threshold: -1}, pods("a:failed", "b:failed"), ""},
		{"PGC-27: pods of Jobs are as good as any for the threshold", policy{Threshold: 1}, pods("a:failed tracked age=2h", "b:failed"),
			"delete a"},

		{"max age: what ended before goes", policy{MaxAge: time.Hour}, pods("a:failed age=2h", "b:failed age=30m"), "delete a"},
		{"max age: counts from the end, not from the beginning", policy{MaxAge: time.Hour}, pods("a:succeeded age=200h ended=10m"), ""},
		{"max age: exactly that old may stay", policy{MaxAge: time.Hour}, pods("a:succeeded age=1h"), ""},
		{"max age: not of a Job that has yet to count it", policy{MaxAge: time.Hour}, pods("a:failed age=2h tracked"), ""},
		{"per namespace: the oldest of each above", policy{PerNamespace: 1},
			pods("a:failed age=3h", "b:failed age=2h", "c:failed in=bar age=1h", "d:evicted in=bar"), "delete d, delete a"},
		{"per namespace: pods of unfinished Jobs neither count nor go", policy{PerNamespace: 1},
			pods("a:failed tracked", "b:failed tracked", "c:failed"), ""},
		{"what an opt-in rule removes is not removed again by the threshold", policy{Threshold: 2, MaxAge: 3 * time.Hour},
			pods("a:failed age=4h", "b:evicted age=1h", "c:failed age=2h"), "delete a"},
		{"what is left is measured by the threshold", policy{Threshold: 1, MaxAge: 3 * time.Hour},
			pods("a:failed age=4h", "b:evicted age=1h", "c:failed age=2h"), "delete a, delete b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := planPods(epoch, snapshot{Rule: terminated, Policy: row.policy, Pods: row.pods})
			if got := writes(p); got != row.want {
				t.Errorf("writes %q, want %q", got, row.want)
			}
			if p.Requeue != cycle {
				t.Errorf("reconciles again in %s", p.Requeue) // PGC-1
			}
		})
	}
}

func TestOutOfService(t *testing.T) {
	const taint = "node.kubernetes.io/out-of-service"
	for _, row := range []struct {
		name string
		node *corev1.Node
		pods []*corev1.Pod
		want string
	}{
		{"PGC-7: not ready and tainted", node("n", corev1.ConditionFalse, taint), pods("a:deleting on=n"), "fail a, delete a"},
		{"PGC-7: readiness unknown", node("n", corev1.ConditionUnknown, "other", taint), pods("a:deleting on=n"), "fail a, delete a"},
		{"PGC-7: no Ready condition", node("n", "", taint), pods("a:deleting on=n"), "fail a, delete a"},
		{"PGC-7: ready, taint or not", node("n", corev1.ConditionTrue, taint), pods("a:deleting on=n"), ""},
		{"PGC-7: not tainted so", node("n", corev1.ConditionFalse, "node.kubernetes.io/unreachable"), pods("a:deleting on=n"), ""},
		{"PGC-7: pods that are not being deleted stay", node("n", corev1.ConditionFalse, taint), pods("a:on=n"), ""},
		{"PGC-7, PGC-26: pods of other nodes stay", node("n", corev1.ConditionFalse, taint), pods("a:deleting on=m", "b:deleting"), ""},
		{"PGC-7: in order of age", node("n", corev1.ConditionFalse, taint), pods("a:deleting on=n age=1h", "b:deleting on=n age=2h"),
			"fail b, delete b, fail a, delete a"},
		{"PGC-19: finished ones are not failed", node("n", corev1.ConditionFalse, taint), pods("a:deleting on=n succeeded"), "delete a"},
		{"what nothing holds, though it was deleted by force, is deleted again: the server was cut off",
			node("n", corev1.ConditionFalse, taint),
			unheld(pods("a:forced on=n failed")), "delete a"},
		{"PGC-18: what only finalizers hold is not deleted again", node("n", corev1.ConditionFalse, taint), pods("a:forced on=n failed"),
			""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := snapshot{Rule: outOfService, Pods: row.pods, Nodes: map[string]*corev1.Node{row.node.Name: row.node}}
			if got := writes(planPods(epoch, s)); got != row.want {
				t.Errorf("writes %q, want %q", got, row.want)
			}
		})
	}
}

// A row is a sentence about what is read live before pods are removed.
func TestProof(t *testing.T) {
	const taint = "node.kubernetes.io/out-of-service"
	nodes := map[string]*corev1.Node{"n": node("n", corev1.ConditionFalse, taint), "m": node("m", corev1.ConditionTrue)}
	for _, row := range []struct {
		name string
		snapshot
		want string
	}{
		{"PGC-7: force asks for proof, once for each node", snapshot{
			Rule: outOfService, Nodes: nodes, Pods: pods("a:deleting on=n", "b:deleting on=n", "c:deleting on=m"),
		}, "Node n"},
		{"PGC-18: not for what only finalizers hold", snapshot{Rule: outOfService, Nodes: nodes, Pods: pods("a:forced on=n failed")}, ""},
		{"first all nodes, to compare the cache", snapshot{Rule: orphaned, Compare: true}, "all Nodes"},
		{"PGC-10: then each node", snapshot{Rule: orphaned, Ask: []string{"x", "y"}}, "Node x, Node y"},
		{"held: none", snapshot{Rule: orphaned, Ask: []string{"x"}, Held: held{tooManyVanished, "8 of 10"}}, ""},
		{"nothing is to be known of pods without a node", snapshot{Rule: unscheduled, Pods: pods("a:deleting")}, ""},
	} {
		var got []string
		for _, ref := range planPods(epoch, row.snapshot).Proof {
			if got = append(got, ref.String()); ref.Metadata != (row.Rule == orphaned) {
				t.Errorf("%s: %+v", row.name, ref)
			}
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: asks for %q, want %q", row.name, got, row.want)
		}
	}
}

func TestOrphanedAndUnscheduled(t *testing.T) {
	gone := map[string]bool{"gone": true}
	for _, row := range []struct {
		name string
		s    snapshot
		want string
		next time.Duration
	}{
		{"PGC-8: all pods of nodes that are gone",
			snapshot{Rule: orphaned, Gone: gone, Pods: pods("a:on=gone", "b:on=gone pending", "c:on=here", "d:")},
			"fail a, delete a, fail b, delete b", cycle},
		{"PGC-19: finished ones are not failed",
			snapshot{Rule: orphaned, Gone: gone, Pods: pods("a:on=gone succeeded", "b:on=gone failed")},
			"delete a, delete b", cycle},
		{"PGC-18: what only finalizers hold is not deleted again",
			snapshot{Rule: orphaned, Gone: gone, Pods: pods("a:on=gone failed forced")}, "", cycle},
		{"held: nothing goes", snapshot{Rule: orphaned, Gone: gone, Pods: pods("a:on=gone"), Held: held{tooManyVanished, "8 of 10"}}, "",
			cycle},
		{"held: a cache that lags is compared again sooner",
			snapshot{Rule: orphaned, Gone: gone, Pods: pods("a:on=gone"), Held: held{notProved, "lags"}}, "", unsure},
		{"PGC-9: reconciles again when the next grace period ends",
			snapshot{Rule: orphaned, NodeCounts: nodeCounts{Missing: 1, Next: 7 * time.Second}}, "", 7 * time.Second},
		{"nodes that have not had their turn follow at once", snapshot{Rule: orphaned, Gone: gone, Pods: pods("a:on=gone"), Unread: 1},
			"fail a, delete a", soon},
		{"PGC-12: being deleted without a node",
			snapshot{Rule: unscheduled, Pods: pods("a:deleting", "b:", "c:deleting on=n", "d:deleting pending")},
			"fail a, delete a, fail d, delete d", cycle},
		{"no such rule", snapshot{Rule: "others", Pods: pods("a:deleting")}, "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := planPods(epoch, row.s)
			if got := writes(p); got != row.want || p.Requeue != row.next {
				t.Errorf("writes %q and reconciles again in %s, want %q in %s", got, p.Requeue, row.want, row.next)
			}
			if row.s.Held.Kind != free && !strings.HasPrefix(p.Why, "waits: "+row.s.Held.Why) {
				t.Errorf("why: %q", p.Why)
			}
		})
	}
}

func TestStatusBeforeDeletion(t *testing.T) {
	condition := func(status corev1.ConditionStatus, since time.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: "DisruptionTarget", Status: status, Reason: "DeletionByPodGC",
			Message: "PodGC: node no longer exists", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(since)}
	}
	for _, row := range []struct {
		name, rule, words string
		want              []corev1.PodCondition
	}{
		{"PGC-15: orphans get the condition", orphaned, "on=n", []corev1.PodCondition{condition("True", epoch)}},
		{"PGC-15: true before, since then", orphaned, "on=n disrupted", []corev1.PodCondition{condition("True", epoch.Add(-time.Minute))}},
		{"PGC-15: false before, since now", orphaned, "on=n undisrupted", []corev1.PodCondition{condition("True", epoch)}},
		{"PGC-16: unscheduled ones don't", unscheduled, "deleting", nil},
		{"PGC-16: nor those on nodes out of service", outOfService, "on=n deleting", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := pod("a", row.words)
			p.Status.Message = "as it was"
			s := snapshot{Rule: row.rule, Pods: []*corev1.Pod{p}, Gone: map[string]bool{"n": true},
				Nodes: map[string]*corev1.Node{"n": node("n", "", "node.kubernetes.io/out-of-service")}}
			sequence := planPods(epoch, s).Steps[0].(plan.Each).Sequences[0]
			change, remove := sequence[0].(plan.Change), sequence[1].(plan.Delete)
			want := p.DeepCopy()
			want.Status.Phase, want.Status.ObservedGeneration, want.Status.Conditions = "Failed", 3, row.want // PGC-13, PGC-14
			if diff := cmp.Diff(want, change.New); diff != "" || change.Subresource != plan.Status {
				t.Errorf("subresource %q, %s", change.Subresource, diff)
			}
			if *remove.Grace != 0 || !remove.CheckVersion { // PGC-18
				t.Errorf("deletes with %+v", remove)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	var all []*corev1.Pod
	for i := range batch + 1 {
		all = append(all, pod(fmt.Sprint("a", i), "deleting"))
	}
	p := planPods(epoch, snapshot{Rule: unscheduled, Pods: all})
	if n := len(p.Steps[0].(plan.Each).Sequences); n != batch || p.Requeue != soon {
		t.Errorf("%d pods in one reconcile, the rest in %s", n, p.Requeue)
	}
}

func TestNodeCounts(t *testing.T) {
	names := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprint("n", i))
		}
		return all
	}
	trips := func(c nodeCounts, share float64) bool {
		return brake.New(brake.Budget{Share: share}).Trips(c.Vanished, c.Known)
	}
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

	t.Run("PGC-9: due after 40 s, to be missed again does not extend it", func(t *testing.T) {
		var m memory
		for _, row := range []struct {
			second int
			due    string
			next   time.Duration
		}{{0, "", 40 * time.Second}, {20, "", 20 * time.Second}, {39, "", time.Second}, {40, "x", 0}, {60, "x", 0}} {
			c := m.count(at(row.second), names(0, 1), []string{"n0", "x"})
			if got := strings.Join(c.Due, " "); got != row.due || c.Missing != 1 || c.Next != row.next {
				t.Errorf("after %d s: %+v", row.second, c)
			}
		}
		m.release("x")
		if c := m.count(at(61), nil, []string{"x"}); len(c.Due) != 0 || c.Next != gracePeriod { // PGC-11
			t.Errorf("the grace period has not begun anew: %+v", c)
		}
	})
	t.Run("the grace period of a name ends when its node is back or its pods are gone", func(t *testing.T) {
		var m memory
		m.count(at(0), nil, []string{"x", "y"})
		m.count(at(20), []string{"x"}, []string{"x"})
		if c := m.count(at(50), nil, []string{"x", "y"}); len(c.Due) != 0 || c.Missing != 2 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("share", func(t *testing.T) {
		for _, row := range []struct {
			name         string
			before, left int
			share        float64
			open         bool
		}{
			{"80 %", 10, 2, 0.5, true},
			{"all", 10, 0, 0.5, true},
			{"half is not more than half", 10, 5, 0.5, false},
			{"a little more than half", 9, 4, 0.5, true},
			{"switched off by flag", 10, 0, -1, false},
			{"small clusters are exempt", 4, 0, 0.5, false},
			{"five nodes are not small", 5, 0, 0.5, true},
		} {
			var m memory
			m.count(at(0), names(0, row.before), nil)
			c := m.count(at(20), names(0, row.left), nil)
			if trips(c, row.share) != row.open {
				t.Errorf("%s: %+v", row.name, c)
			}
		}
	})
	t.Run("new nodes in place of old ones do not make up for a loss", func(t *testing.T) {
		var m memory
		m.count(at(0), names(0, 10), nil)
		if c := m.count(at(20), names(10, 20), nil); c.Known != 10 || c.Vanished != 10 || !trips(c, 0.5) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("nodes that come and go are no loss, and do not make a small cluster large", func(t *testing.T) {
		var m memory
		m.count(at(0), names(0, 3), nil)
		for i := 3; i < 30; i++ {
			m.count(at(20*i), append(names(0, 3), fmt.Sprint("n", i)), nil)
			if c := m.count(at(20*i+10), names(0, 3), []string{fmt.Sprint("n", i)}); c.Known > 4 || trips(c, 0.5) {
				t.Errorf("after %d: %+v", i, c)
			}
		}
	})
	t.Run("after ten minutes the loss is history", func(t *testing.T) {
		var m memory
		m.count(at(0), names(0, 100), nil)
		if c := m.count(at(600), names(0, 20), nil); c.Vanished != 80 {
			t.Errorf("%+v", c)
		}
		if c := m.count(at(601), names(0, 20), nil); c.Vanished != 0 || c.Known != 20 || trips(c, 0.5) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("who starts after the loss knows it from the pods", func(t *testing.T) {
		var m memory
		m.begin(at(0), names(0, 10))
		if c := m.count(at(0), names(0, 2), names(0, 10)); c.Known != 10 || c.Vanished != 8 || !trips(c, 0.5) {
			t.Errorf("%+v", c)
		}
		if c := m.count(at(20), names(0, 2), append(names(0, 10), "typo")); c.Known != 10 {
			t.Errorf("a name that came later passes for a node: %+v", c)
		}
	})
	t.Run("a pod that was never run proves no node", func(t *testing.T) {
		waits, runs := pod("a", ""), pod("b", "")
		waits.Status, runs.Status = corev1.PodStatus{Phase: corev1.PodPending}, corev1.PodStatus{Phase: corev1.PodRunning}
		if proven([]*corev1.Pod{waits}) || !proven([]*corev1.Pod{waits, runs}) {
			t.Error("a pending pod counts, or a running one does not")
		}
	})
	t.Run("names", func(t *testing.T) {
		for _, row := range []struct {
			live, cached []string
			open         bool
		}{
			{nil, nil, false},
			{names(0, 3), names(0, 3), false},
			{names(0, 3), names(0, 4), true},
			{names(0, 4), names(0, 3), true},
			{names(0, 4), names(1, 5), true},
		} {
			if b := checkNames(row.live, row.cached); (b.Kind == notProved) != row.open {
				t.Errorf("%v %v: %+v", row.live, row.cached, b)
			}
		}
	})
}

// What a rule holds is part of its plan, and so is why it does not hold that any more.
func TestOrphansAreHeld(t *testing.T) {
	due := nodeCounts{Missing: 1, Due: []string{"gone"}}
	expired := nodeCounts{Missing: 1, Due: []string{"gone"}, Expired: 8}
	for _, row := range []struct {
		name string
		s    snapshot
		want plan.Hold
	}{
		{"too many nodes have vanished", snapshot{NodeCounts: due, Held: held{tooManyVanished, "8 of 10"}},
			plan.Hold{What: orphans, Why: "8 of 10"}},
		{"the cache lags", snapshot{NodeCounts: due, Held: held{notProved, "lags"}}, plan.Hold{What: orphans, Why: "lags"}},
		{"no node is missing", snapshot{HeldBefore: tooManyVanished}, plan.Hold{Ended: plan.NothingLeft}},
		{"it is history", snapshot{NodeCounts: expired, HeldBefore: tooManyVanished}, plan.Hold{Ended: plan.ByTime}},
		{"it is history, and was held for another reason", snapshot{NodeCounts: expired, HeldBefore: notProved}, plan.Hold{}},
		{"nodes have come back", snapshot{NodeCounts: due, HeldBefore: tooManyVanished}, plan.Hold{Ended: plan.ByProof}},
	} {
		row.s.Rule = orphaned
		if got := planPods(epoch, row.s).Hold; got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}
