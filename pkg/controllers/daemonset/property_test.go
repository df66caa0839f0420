package daemonset

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var strategies = []edit{moves("0", "1"), moves("0", "2"), moves("0", "50%"), moves("1", "0"), moves("50%", "0"), onDelete}

// drawScene draws a DaemonSet with pods in all conditions.
func drawScene(t *rapid.T) view {
	d := agent(rapid.SampledFrom(strategies).Draw(t, "strategy"), minReady(rapid.SampledFrom([]int32{0, 0, 60}).Draw(t, "minReadySeconds")),
		keeps(rapid.Int32Range(0, 2).Draw(t, "history")))
	states := rapid.SliceOfN(rapid.SampledFrom([]podEdit{
		old, unready, pending, readyFor(time.Second), age(time.Second), age(time.Minute), terminating, orphan,
		failedPhase, succeededPhase, func(p *corev1.Pod) { p.Labels["app"] = "other" },
	}), 0, 2)
	var pods []*corev1.Pod
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		node := fmt.Sprint("n", rapid.IntRange(1, 5).Draw(t, "node"))
		p := pod(fmt.Sprint("p", i), node)
		for _, e := range states.Draw(t, "state") {
			if len(p.Status.Conditions) > 0 {
				e(p)
			}
		}
		pods = append(pods, p)
	}
	s := scene(d, rapid.SampledFrom([]string{"n1 n2 n3 n4", "n1 n2~ n3! n4", "n1! n2! n3!", ""}).Draw(t, "nodes"), pods...)
	s.Revisions = append(s.Revisions, pages(map[string]int64{"v3": 3, "v4": 4})...)
	s.derive()
	s.Backoff, _ = s.memoryOf(t).see(now, s)
	return s
}

// memoryOf draws what is remembered of failures.
func (s *view) memoryOf(t *rapid.T) *memory {
	if rapid.Bool().Draw(t, "nothing remembered") {
		return nil
	}
	return &memory{Generation: 2,
		Failures: map[string]failure{"n1": {Deleted: now.Add(-time.Second), Delay: 2 * time.Second},
			"n2": {Deleted: now.Add(-time.Hour), Delay: time.Second}}}
}

// effects are what a plan creates and deletes.
func effects(steps []plan.Step) (created []string, deleted []*corev1.Pod, written []types.UID) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.CreateAll:
			for _, o := range s.Objects {
				created = append(created, podutil.TargetNode(o.(*corev1.Pod)))
			}
		case plan.Change:
			written = append(written, s.Old.GetUID())
		case plan.Delete:
			for _, o := range s.Objects {
				written = append(written, o.GetUID())
				if p, ok := o.(*corev1.Pod); ok {
					deleted = append(deleted, p)
				}
			}
		case plan.Each:
			for _, sequence := range s.Sequences {
				c, d, w := effects(sequence)
				created, deleted, written = append(created, c...), append(deleted, d...), append(written, w...)
			}
		}
	}
	return created, deleted, written
}

// What a plan does is safe, whatever the world looks like: no object is written twice, at most one pod comes to a node, no pod comes to a
// node that does not run any or, without a surge, has one, and no available pod goes if too few would be left.
func TestPlansAreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		before := plantest.Copies(s.Pods)
		p := planDaemonSet(now, s)
		created, deleted, written := effects(p.Steps)
		slices.Sort(written)
		slices.Sort(created)
		if len(slices.Compact(slices.Clone(written))) != len(written) || len(slices.Compact(slices.Clone(created))) != len(created) {
			t.Fatalf("twice: %v, %v", written, created)
		}
		surge := budgetOf(s.Set, s.desired()).surge > 0
		for _, name := range created {
			i := slices.IndexFunc(s.Nodes, func(n node) bool { return n.Name == name })
			if i < 0 || s.Nodes[i].Eligibility != eligible || !surge && len(s.on[name]) > 0 {
				t.Fatalf("creates on %s, which has %d pods", name, len(s.on[name]))
			}
		}
		assertAvailable(t, s, deleted)
		for _, p := range deleted {
			if p.DeletionTimestamp != nil || len(p.OwnerReferences) == 0 {
				t.Fatalf("deletes %s", p.Name)
			}
		}
		reportStatus(now, s, plan.Outcome{})
		if diff := cmp.Diff(before, s.Pods); diff != "" {
			t.Fatalf("pods were changed: %s", diff)
		}
	})
}

// assertAvailable: nodes with one pod that is available lose it only if enough others keep theirs (DS-61, DS-63).
func assertAvailable(t *rapid.T, s view, deleted []*corev1.Pod) {
	had, has := 0, 0
	for _, n := range s.Nodes {
		pods := slices.DeleteFunc(slices.Clone(s.on[n.Name]), func(p *corev1.Pod) bool { return !podutil.Active(p) })
		if n.Eligibility != eligible {
			continue
		}
		available := func(p *corev1.Pod) bool { return podutil.Available(p, s.Set.Spec.MinReadySeconds, now) }
		kept := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return slices.Contains(deleted, p) })
		if slices.ContainsFunc(pods, available) && (len(pods) == 1 || slices.ContainsFunc(kept, available)) {
			had++
		}
		if slices.ContainsFunc(kept, available) {
			has++
		}
	}
	budget := budgetOf(s.Set, s.desired())
	if budget.surge > 0 {
		budget.unavailable = 0
	}
	if has < had && has < s.desired()-budget.unavailable {
		t.Fatalf("%d of %d available pods are left, of %d desired, %+v", has, had, s.desired(), budget)
	}
}

// Whatever users and nodes do, once they stop, each eligible node has one available pod of the present template, the status says so,
// and nothing is written any more.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t, agent(image("v0"), rapid.SampledFrom(strategies[:5]).Draw(t, "strategy"), keeps(1)), "n1", "n2", "n3")
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			node := fmt.Sprint("n", rapid.IntRange(1, 4).Draw(t, "node"))
			rapid.SampledFrom([]func(){
				func() { s.edit("image", image(fmt.Sprint("v", rapid.IntRange(0, 2).Draw(t, "version")))) },
				func() { s.edit("strategy", rapid.SampledFrom(strategies[:5]).Draw(t, "new strategy")) },
				func() { s.addNode(node) },
				func() { s.removeNode(node) },
				func() { s.node(node, "taint", taint("dedicated", "NoSchedule")) },
				func() { s.node(node, "taint", taint("broken", "NoExecute")) },
				func() { s.node(node, "untaint", func(n *corev1.Node) { n.Spec.Taints = nil }) },
				func() { s.broken[node] = !s.broken[node] },
				func() { s.stuck[node] = !s.stuck[node] },
				func() { s.slow[node] = !s.slow[node] },
				func() { s.deletePod(node) },
			}).Draw(t, "what")()
			s.turns(rapid.IntRange(0, 4).Draw(t, "turns"))
		}
		clear(s.broken)
		clear(s.slow)
		clear(s.stuck)
		s.turns(60)
		s.assertSettled()
	})
}

func (s *simulation) removeNode(name string) {
	if n := plantest.One[*corev1.Node](s.world, name); n != nil {
		s.world.Remove(n)
		for _, p := range s.podsOn(name) { // podgc's, in the end
			if p.Spec.NodeName != "" {
				s.world.Remove(p)
			}
		}
	}
}

func (s *simulation) deletePod(node string) {
	for _, p := range s.podsOn(node) {
		s.world.Apply(plan.Plan{Steps: []plan.Step{plan.Delete{Objects: []plan.Object{p}}}})
	}
}

func (s *simulation) assertSettled() {
	snap := s.snapshot()
	if p := planDaemonSet(s.world.Now(), snap); !p.Empty() {
		s.t.Fatalf("still to do: %v\n%s", lines(p.Steps), s.diary.String())
	}
	c := snap.count(s.world.Now())
	if c.available != c.desired || c.updated != c.desired || c.ending {
		s.t.Fatalf("%+v\n%s", c, s.diary.String())
	}
	for _, n := range snap.Nodes {
		if pods := snap.on[n.Name]; len(pods) > 1 || n.Eligibility == eligible && len(pods) != 1 {
			s.t.Fatalf("%d pods on %s\n%s", len(pods), n.Name, s.diary.String())
		}
	}
	if r := reportStatus(s.world.Now(), snap, plan.Outcome{}); !r.Empty() {
		s.t.Fatalf("the status is not up to date: %v", s.set().Status)
	}
	if len(snap.revisions.duplicates) > 0 || len(snap.revisions.old) > 1 {
		s.t.Fatalf("history: %+v", snap.revisions)
	}
}

// ownProjection is what the caches keep if there is no other controller.
var ownProjection = sync.OnceValues(func() (informers.Projection, error) { return managertest.Projection(New(Options{})) })

func TestIgnoresFieldsNotCached(t *testing.T) {
	project := func(p *corev1.Pod) *corev1.Pod {
		own, err := ownProjection()
		if err != nil {
			t.Fatal(err)
		}
		return own.ProjectPod(p)
	}
	rapid.Check(t, func(t *rapid.T) {
		full := drawScene(t)
		slim := full
		slim.Pods = nil
		for _, p := range full.Pods {
			p.Annotations, p.Status.PodIP, p.Spec.HostNetwork = map[string]string{"a": "b"}, "10.0.0.1", true
			slim.Pods = append(slim.Pods, project(p))
		}
		slim.derive()
		a, b := planDaemonSet(now, full), planDaemonSet(now, slim)
		if diff := cmp.Diff(lines(a.Steps), lines(b.Steps)); diff != "" || a.Why != b.Why || a.Requeue != b.Requeue {
			t.Fatalf("%s, %s: %s", a.Why, b.Why, diff)
		}
		if diff := cmp.Diff(reportStatus(now, full, plan.Outcome{}), reportStatus(now, slim, plan.Outcome{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		back := view{snapshot: plantest.Restored(t, s.snapshot)}
		back.derive()
		back.Backoff = s.Backoff
		if diff := cmp.Diff(planDaemonSet(now, s), planDaemonSet(now, back), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reportStatus(now, s, plan.Outcome{}), reportStatus(now, back, plan.Outcome{}),
			cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// DS-104: what it costs to relabel nodes follows what changes, not nodes times DaemonSets.
func TestDS104RelabeledNodes(t *testing.T) {
	k := newCaches(t)
	for i := range 50 {
		d := agent(selects(fmt.Sprint("key-", i), "x"))
		d.Name = fmt.Sprint("agent-", i)
		k.put(t, d)
	}
	enqueued := 0
	for i := range 1000 {
		before := worker(fmt.Sprint("n", i))
		enqueued += len(k.enqueuedByNode(before, worker(before.Name, label("key-7", "x"), label("other", "x"))))
	}
	if evaluated := k.evaluations(); enqueued != 1000 || evaluated > 2 {
		t.Errorf("%d enqueued, %d evaluated", enqueued, evaluated)
	}
}
