package daemonset

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// simulation runs the controller over a world, as the runtime does, and keeps a diary. A second is a turn: the controller reconciles
// until it has nothing to write, and then scheduler and kubelets do their work.
type simulation struct {
	t           failer
	world       *plantest.World
	eligibility *eligibilityCache
	memory      *memory
	turn        int
	diary       strings.Builder
	told        string          // how things were when they were last written down
	broken      map[string]bool // nodes on which pods fail
	slow        map[string]bool // nodes on which pods do not become ready
	stuck       map[string]bool // nodes on which pods do not end
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func newSimulation(t failer, d *appsv1.DaemonSet, nodes ...string) *simulation {
	d.Status, d.Generation = appsv1.DaemonSetStatus{}, 1
	d.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "1"}
	s := &simulation{t: t, world: plantest.NewWorld(d), eligibility: newEligibilityCache(false, nil), broken: map[string]bool{},
		slow: map[string]bool{}, stuck: map[string]bool{}}
	for _, name := range nodes {
		s.addNode(name)
	}
	return s
}

func (s *simulation) addNode(name string) {
	s.world.Apply(plan.Plan{Steps: []plan.Step{plan.Create{Object: worker(name)}}})
}

func (s *simulation) set() *appsv1.DaemonSet {
	return plantest.One[*appsv1.DaemonSet](s.world, "agent")
}

func (s *simulation) pods() []*corev1.Pod { return plantest.All[*corev1.Pod](s.world) }

// edit is a user's edit. The server counts changes of the template.
func (s *simulation) edit(what string, e edit) {
	s.note("user: %s", what)
	before := s.set().Spec.Template
	plantest.Edit(s.world, "agent", e)
	if !cmp.Equal(before, s.set().Spec.Template) {
		plantest.Edit(s.world, "agent", func(d *appsv1.DaemonSet) {
			var n int
			_, _ = fmt.Sscan(d.Annotations[appsv1.DeprecatedTemplateGeneration], &n)
			d.Annotations[appsv1.DeprecatedTemplateGeneration] = fmt.Sprint(n + 1)
		})
	}
}

func (s *simulation) node(name, what string, e nodeEdit) {
	s.note("node %s: %s", name, what)
	plantest.Edit(s.world, name, e)
}

// snapshot is what the controller observes.
func (s *simulation) snapshot() view {
	d := s.set()
	snap := newSnapshot(d, s.pods(), plantest.All[*appsv1.ControllerRevision](s.world))
	for _, n := range plantest.All[*corev1.Node](s.world) {
		if e := s.eligibility.of(d).eligibility(n); e != excluded || len(snap.on[n.Name]) > 0 {
			snap.Nodes = append(snap.Nodes, node{n.Name, e})
		}
	}
	if snap.invalid == nil && snap.revisions.current == nil {
		name, _ := newRevisionName(d)
		snap.Taken = plantest.One[*appsv1.ControllerRevision](s.world, name)
	}
	snap.Backoff, s.memory = s.memory.see(s.world.Now(), snap)
	return snap
}

// reconcile reconciles until there is nothing left to write.
func (s *simulation) reconcile() {
	for range 50 {
		snap := s.snapshot()
		p := planDaemonSet(s.world.Now(), snap)
		did := s.world.Apply(p)
		r := reportStatus(s.world.Now(), snap, did)
		reported := s.world.Apply(plan.Plan{Steps: r.Steps})
		if did.Wrote() || reported.Wrote() {
			s.note("controller: %s", p.Why)
		}
		if did.Err != nil || reported.Err != nil || !did.Wrote() && !reported.Wrote() {
			return
		}
	}
	s.t.Fatalf("does not come to rest: %v", s.world.Log)
}

// turns lets so many seconds pass.
func (s *simulation) turns(n int) *simulation {
	for range n {
		s.reconcile()
		s.surroundings()
		s.tell()
		s.turn++
		s.world.Sleep(time.Second)
	}
	return s
}

// surroundings are scheduler and kubelets: a pod is bound, then ready or failed; one that is deleted goes.
func (s *simulation) surroundings() {
	for _, p := range s.pods() {
		on := podutil.TargetNode(p)
		switch {
		case p.DeletionTimestamp != nil && (!s.stuck[on] || podutil.Finished(p)):
			s.world.Remove(p)
		case p.DeletionTimestamp != nil:
		case p.Spec.NodeName == "":
			plantest.Edit(s.world, p.Name, func(p *corev1.Pod) { p.Spec.NodeName = on })
		case !podutil.Active(p) || podutil.Ready(p) || s.slow[on]:
		case s.broken[on]:
			plantest.EditStatus(s.world, p.Name, failedPhase)
		default:
			plantest.EditStatus(s.world, p.Name, plantest.Ready(s.world.Now()))
		}
	}
}

func (s *simulation) note(format string, args ...any) {
	fmt.Fprintf(&s.diary, "%3ds  %s\n", s.turn, fmt.Sprintf(format, args...))
}

// tell writes the pods and the status down, when they have changed.
func (s *simulation) tell() {
	var all []string
	for _, n := range plantest.All[*corev1.Node](s.world) {
		var pods []string
		for _, p := range s.pods() {
			if podutil.TargetNode(p) == n.Name {
				pods = append(pods, s.describe(p))
			}
		}
		all = append(all, fmt.Sprintf("%s[%s]", n.Name, strings.Join(pods, ", ")))
	}
	c := s.set().Status
	line := fmt.Sprintf("      nodes   %s\n      status  desired %d, current %d, updated %d, ready %d, available %d, misscheduled %d\n",
		strings.Join(all, " "),
		c.DesiredNumberScheduled, c.CurrentNumberScheduled, c.UpdatedNumberScheduled, c.NumberReady, c.NumberAvailable,
		c.NumberMisscheduled)
	if line != s.told {
		s.diary.WriteString(line)
		s.told = line
	}
}

func (s *simulation) describe(p *corev1.Pod) string {
	words := []string{p.Spec.Containers[0].Image}
	switch {
	case p.DeletionTimestamp != nil:
		words = append(words, "terminating")
	case p.Status.Phase == corev1.PodFailed:
		words = append(words, "failed")
	case podutil.Available(p, s.set().Spec.MinReadySeconds, s.world.Now()):
		words = append(words, "available")
	case podutil.Ready(p):
		words = append(words, "ready")
	case p.Spec.NodeName == "":
		words = append(words, "pending")
	default:
		words = append(words, "starting")
	}
	return strings.Join(words, " ")
}

// TestDiaries: what happens, step by step, as a person reads it.
func TestDiaries(t *testing.T) {
	v1 := func(edits ...edit) *appsv1.DaemonSet { return agent(append([]edit{image("v1")}, edits...)...) }
	gone := func(s *simulation, name string) {
		s.note("node %s: removed", name)
		s.world.Remove(plantest.One[*corev1.Node](s.world, name))
	}
	for _, c := range []struct {
		name string // of the file, too
		d    *appsv1.DaemonSet
		play func(*simulation)
	}{
		{"DS-95 create", v1(), func(s *simulation) { s.turns(4) }},
		{"DS-96 rolling update", v1(), func(s *simulation) { s.turns(4); s.edit("image v2", image("v2")); s.turns(14) }},
		{"DS-97 surge", v1(moves("1", "0")), func(s *simulation) { s.turns(4); s.edit("image v2", image("v2")); s.turns(14) }},
		{"DS-64 OnDelete", v1(onDelete), func(s *simulation) {
			s.turns(4)
			s.edit("image v2", image("v2"))
			s.turns(2)
			s.note("user: deletes the pod on n2")
			s.world.Apply(plan.Plan{Steps: []plan.Step{plan.Delete{Objects: []plan.Object{s.podsOn("n2")[0]}}}})
			s.turns(4)
		}},
		{"DS-53 rollback", v1(moves("0", "3")), func(s *simulation) {
			s.turns(4)
			s.edit("image v2", image("v2"))
			s.turns(5)
			s.edit("image v1", image("v1"))
			s.turns(5)
			s.tellRevisions()
		}},
		{"DS-62 broken template", v1(), func(s *simulation) {
			s.turns(4)
			s.slow = map[string]bool{"n1": true, "n2": true, "n3": true}
			s.edit("image v2, which never becomes ready", image("v2"))
			s.turns(6)
			s.slow = nil
			s.edit("image v3", image("v3"))
			s.turns(14)
		}},
		{"DS-98 taints", v1(), func(s *simulation) {
			s.turns(4)
			s.node("n2", "taint NoSchedule", taint("dedicated", corev1.TaintEffectNoSchedule))
			s.turns(2)
			s.node("n2", "taint NoExecute", taint("broken", corev1.TaintEffectNoExecute))
			s.turns(2)
			s.node("n2", "no taints", func(n *corev1.Node) { n.Spec.Taints = nil })
			s.turns(4)
		}},
		{"DS-35 failing pods", v1(), func(s *simulation) { s.broken["n2"] = true; s.turns(22) }},
		{"DS-103 nodes come and go", v1(), func(s *simulation) {
			s.turns(4)
			s.note("node n4: added")
			s.addNode("n4")
			s.turns(4)
			gone(s, "n1")
			s.turns(2)
		}},
		{"DS-73 minReadySeconds", v1(minReady(3)), func(s *simulation) { s.turns(7); s.edit("image v2", image("v2")); s.turns(20) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSimulation(t, c.d, "n1", "n2", "n3")
			c.play(s)
			plantest.Golden(t, filepath.Join("testdata", strings.ReplaceAll(c.name, " ", "-")+".txt"), s.diary.String())
		})
	}
}

func (s *simulation) podsOn(node string) (on []*corev1.Pod) {
	for _, p := range s.pods() {
		if podutil.TargetNode(p) == node {
			on = append(on, p)
		}
	}
	return on
}

// tellRevisions writes the history down, as kubectl rollout history shows it.
func (s *simulation) tellRevisions() {
	all := slices.Clone(plantest.All[*appsv1.ControllerRevision](s.world))
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	for _, r := range all {
		s.note("revision %d: %s", r.Revision, r.Name)
	}
}
