package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// planned returns what a plan does, without events.
func planned(s view) []string {
	return slices.DeleteFunc(lines(planDaemonSet(now, s).Steps), func(line string) bool { return strings.HasPrefix(line, "event") })
}

func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPlacement(t *testing.T) {
	surging := agent(moves("1", "0"))
	for _, c := range []struct {
		name  string
		d     *appsv1.DaemonSet
		nodes string
		pods  []*corev1.Pod
		want  []string
	}{
		{"DS-30 each node gets a pod", agent(), "n1 n2", nil, []string{"create on n1", "create on n2"}},
		{"DS-30 a pod on its way counts", agent(), "n1", []*corev1.Pod{pod("a", "n1", pending)}, nil},
		{"DS-30 a pod that terminates counts until it is gone", agent(), "n1", []*corev1.Pod{pod("a", "n1", terminating)}, nil},
		{"DS-16 a pod that has ended and is being deleted does not", agent(), "n1", []*corev1.Pod{pod("a", "n1", failedPhase, terminating)},
			[]string{"create on n1"}},
		{"DS-16 a pod that is meant for no node is left alone", agent(), "n1",
			[]*corev1.Pod{pod("a", "n1", pending, func(p *corev1.Pod) { p.Spec.Affinity = nil })}, []string{"create on n1"}},
		{"DS-21 a node that tolerates pods gets none", agent(), "n1~", nil, nil},
		{"DS-21 and keeps the one that it has", agent(), "n1~", []*corev1.Pod{pod("a", "n1")}, nil},
		{"DS-31 failed", agent(), "n1", []*corev1.Pod{pod("a", "n1", failedPhase)}, []string{"delete a"}},
		{"DS-31 succeeded", agent(), "n1", []*corev1.Pod{pod("a", "n1", succeededPhase)}, []string{"delete a"}},
		{"DS-32 of several the one on the node stays", agent(), "n1",
			[]*corev1.Pod{pod("a", "n1", pending, age(time.Hour)), pod("b", "n1", age(time.Minute))}, []string{"delete a"}},
		{"DS-32 then the oldest", agent(), "n1",
			[]*corev1.Pod{pod("a", "n1", age(time.Minute)), pod("b", "n1", age(time.Hour)), pod("c", "n1", age(time.Second))},
			[]string{"delete a", "delete c"}},
		{"DS-32 then the first by name", agent(), "n1", []*corev1.Pod{pod("b", "n1"), pod("a", "n1")}, []string{"delete b"}},
		{"DS-32 one that terminates is not one of several", agent(), "n1", []*corev1.Pod{pod("a", "n1", terminating), pod("b", "n1")}, nil},
		{"DS-33 a new pod beside one that terminates", surging, "n1", []*corev1.Pod{pod("a", "n1", terminating)}, []string{"create on n1"}},
		{"DS-33 not where pods are only tolerated", surging, "n1~", []*corev1.Pod{pod("a", "n1", terminating)}, nil},
		{"DS-33 a failed pod goes first", surging, "n1", []*corev1.Pod{pod("a", "n1", failedPhase)}, []string{"delete a"}},
		{"DS-33 the oldest of each template stays", surging, "n1", []*corev1.Pod{
			pod("a", "n1", unready, age(time.Minute)), pod("b", "n1", unready, age(time.Hour)), pod("c", "n1", old, age(time.Minute)),
			pod("d", "n1", old),
		}, []string{"delete a", "delete c"}},
		{"DS-33 the old one goes when the new one is available", surging, "n1", []*corev1.Pod{pod("a", "n1"), pod("b", "n1", old)},
			[]string{"delete b"}},
		{"DS-33 and when it is not ready itself", surging, "n1", []*corev1.Pod{pod("a", "n1", unready), pod("b", "n1", old, unready)},
			[]string{"delete b"}},
		{"DS-34 misplaced", agent(), "n1!", []*corev1.Pod{pod("a", "n1"), pod("b", "n1", failedPhase), pod("c", "n1", terminating)},
			[]string{"delete a", "delete b"}},
		{"DS-36 a pod for a node that is gone", agent(), "n1", []*corev1.Pod{pod("a", "n1"), pod("b", "n2", pending)},
			[]string{"delete b"}},
		{"DS-36 but not one on it, which is podgc's", agent(), "n1", []*corev1.Pod{pod("a", "n1"), pod("b", "n2")}, nil},
		{"DS-36 beside a node that need not have a pod", agent(), "n1 n3~", []*corev1.Pod{pod("a", "n1"), pod("b", "n2", pending)},
			[]string{"delete b"}},
		{"DS-16 pods of others", agent(), "n1", []*corev1.Pod{pod("a", "n1", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })},
			[]string{"create on n1"}},
	} {
		t.Run(c.name, func(t *testing.T) { is(t, planned(scene(c.d, c.nodes, c.pods...)), c.want...) })
	}
}

func TestRollingUpdate(t *testing.T) {
	two := agent(moves("0", "2"))
	surging := agent(moves("1", "0"))
	for _, c := range []struct {
		name  string
		d     *appsv1.DaemonSet
		nodes string
		pods  []*corev1.Pod
		want  []string
	}{
		{"DS-61 as many as may be unavailable", two, "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", old), pod("b", "n2", old), pod("c", "n3", old)}, []string{"delete a", "delete b"}},
		{"DS-61 an unavailable new pod counts", two, "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", unready), pod("b", "n2", old), pod("c", "n3", old)}, []string{"delete b"}},
		{"DS-61 a pod that terminates counts", two, "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", old, terminating), pod("b", "n2", old), pod("c", "n3", old)}, []string{"delete b"}},
		{"DS-61 unavailable old pods cost nothing", agent(), "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", old, unready), pod("b", "n2", old, unready), pod("c", "n3", old)},
			[]string{"delete a", "delete b"}},
		{"DS-62 a broken template stops", two, "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", unready), pod("b", "n2", unready), pod("c", "n3", old)}, nil},
		{"DS-61 a node that lacks a pod counts", two, "n1 n2 n3", []*corev1.Pod{pod("a", "n1", old), pod("b", "n2", old)},
			[]string{"create on n3", "delete a"}},
		{"DS-61 a ready pod that is not available yet counts", agent(minReady(60), moves("0", "1")), "n1 n2",
			[]*corev1.Pod{pod("a", "n1", readyFor(time.Second)), pod("b", "n2", old)}, nil},
		{"DS-106 a node that fails does not keep the others", two, "n1 n2 n3", []*corev1.Pod{pod("b", "n2", old), pod("c", "n3", old)},
			[]string{"create on n1", "delete b"}},
		{"DS-22 a misplaced pod does not count", agent(), "n1! n2 n3",
			[]*corev1.Pod{pod("a", "n1"), pod("b", "n2", old), pod("c", "n3", old)}, []string{"delete a", "delete b"}},
		{"DS-21 nor does a node that need not have a pod", agent(), "n1~ n2 n3~ n4~",
			[]*corev1.Pod{pod("b", "n2", old), pod("c", "n3", terminating), pod("d", "n4", unready)}, []string{"delete b"}},
		{"DS-56 the same generation is the same template", agent(), "n1",
			[]*corev1.Pod{pod("a", "n1", old, func(p *corev1.Pod) { p.Labels[templateGeneration] = "2" })}, nil},
		{"DS-56 the same hash, too", agent(), "n1",
			[]*corev1.Pod{pod("a", "n1", func(p *corev1.Pod) { p.Labels[templateGeneration] = "1" })}, nil},
		{"DS-64 OnDelete replaces nothing", agent(onDelete), "n1", []*corev1.Pod{pod("a", "n1", old, unready)}, nil},
		{"DS-60 both zero", agent(moves("0", "0")), "n1 n2", []*corev1.Pod{pod("a", "n1", old), pod("b", "n2", old)}, []string{"delete a"}},
		{"DS-63 a new pod beside an old one", surging, "n1 n2", []*corev1.Pod{pod("a", "n1", old), pod("b", "n2", old)},
			[]string{"create on n1"}},
		{"DS-63 one that is not available uses the budget", surging, "n1 n2",
			[]*corev1.Pod{pod("a", "n1", old), pod("c", "n1", unready), pod("b", "n2", old)}, nil},
		{"DS-63 beside an unavailable old pod it needs no budget", surging, "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", old, unready), pod("b", "n2", old, unready), pod("c", "n3", old)},
			[]string{"create on n1", "create on n2", "create on n3"}},
		{"DS-63 an unavailable old pod where pods are only tolerated", surging, "n1~ n2",
			[]*corev1.Pod{pod("a", "n1", old, unready), pod("b", "n2")}, []string{"delete a"}},
		{"DS-63 an available one, which nobody needs", surging, "n1~ n2", []*corev1.Pod{pod("a", "n1", old), pod("b", "n2")},
			[]string{"delete a"}},
		{"DS-63 a node that is put in order uses budget, too", surging, "n1 n2",
			[]*corev1.Pod{pod("a", "n1", old), pod("b", "n1", unready), pod("c", "n1", unready, age(time.Second)), pod("d", "n2", old)},
			[]string{"delete c"}},
		{"DS-63 but not if its old pod goes", surging, "n1 n2",
			[]*corev1.Pod{pod("a", "n1", old, unready), pod("b", "n1", unready), pod("d", "n2", old)},
			[]string{"delete a", "create on n2"}},
		{"DS-21 nor one where pods are only tolerated any more", surging, "n1~ n2",
			[]*corev1.Pod{pod("a", "n1", old), pod("b", "n1", pending), pod("d", "n2", old)}, []string{"create on n2"}},
		{"DS-63 an available one, which makes up for another", surging, "n1~ n2",
			[]*corev1.Pod{pod("a", "n1", old), pod("b", "n2", unready)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { is(t, planned(scene(c.d, c.nodes, c.pods...)), c.want...) })
	}
}

func TestDS60Room(t *testing.T) {
	percent := func(s string) *intstr.IntOrString { return ptr.To(intstr.Parse(s)) }
	for _, c := range []struct {
		surge, unavailable *intstr.IntOrString
		desired            int
		want               budget
	}{
		{nil, nil, 10, budget{unavailable: 1}},
		{percent("0"), percent("10%"), 11, budget{unavailable: 2}},
		{percent("10%"), percent("0"), 11, budget{surge: 2}},
		{percent("0"), percent("0"), 5, budget{unavailable: 1}},
		{percent("0"), percent("0%"), 0, budget{}},
		{percent("0"), percent("50%"), 0, budget{}},
		{percent("0"), percent("-3"), 5, budget{unavailable: 1}},
		{percent("much"), percent("3"), 5, budget{unavailable: 3}},
	} {
		d := agent()
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: c.surge, MaxUnavailable: c.unavailable}
		if got := budgetOf(d, c.desired); got != c.want {
			t.Errorf("surge %v, unavailable %v of %d: %+v, want %+v", c.surge, c.unavailable, c.desired, got, c.want)
		}
	}
	if got := budgetOf(agent(func(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy.RollingUpdate = nil }), 3); got != (budget{unavailable: 1}) {
		t.Errorf("without parameters: %+v", got)
	}
}

func TestDS28Limits(t *testing.T) {
	var names []string
	var pods []*corev1.Pod
	for i := range 300 {
		names = append(names, fmt.Sprintf("n%03d", i))
		pods = append(pods, pod(fmt.Sprintf("p%03d", i), fmt.Sprintf("m%03d", i)))
		names = append(names, fmt.Sprintf("m%03d!", i))
	}
	var created, deleted int
	for _, line := range planned(scene(agent(), strings.Join(names, " "), pods...)) {
		if strings.HasPrefix(line, "create") {
			created++
		} else {
			deleted++
		}
	}
	if created != 250 || deleted != 250 {
		t.Errorf("%d created, %d deleted", created, deleted)
	}
}

// A node whose pods the server refuses must not keep the others from getting theirs, because nothing is created after a failure.
func TestEachNodeIsFirstAtTimes(t *testing.T) {
	firsts := map[string]bool{}
	for i := range 10 {
		p := planDaemonSet(now.Add(time.Duration(i)*time.Millisecond), scene(agent(), "n1 n2 n3"))
		firsts[podutil.TargetNode(p.Steps[0].(plan.Each).Sequences[0][0].(plan.CreateAll).Objects[0].(*corev1.Pod))] = true
	}
	if len(firsts) != 3 {
		t.Errorf("first were %v", firsts)
	}
}

// Nor must a node where the server refuses to delete a pod, or to create one beside it, keep a rolling update from the others.
func TestEachNodeIsUpdatedFirstAtTimes(t *testing.T) {
	var nodes []string
	var crowd []*corev1.Pod
	for i := range burst + 1 {
		nodes = append(nodes, fmt.Sprintf("m%03d!", i))
		crowd = append(crowd, pod(fmt.Sprintf("p%03d", i), fmt.Sprintf("m%03d", i)))
	}
	three := []*corev1.Pod{pod("a", "n1", old), pod("b", "n2", old), pod("c", "n3", old)}
	for _, c := range []struct {
		name    string
		s       view
		writes  int
		choices int
	}{
		{"DS-61", scene(agent(), "n1 n2 n3", three...), 1, 3},
		{"DS-63", scene(agent(moves("1", "0")), "n1 n2 n3", three...), 1, 3},
		{"DS-28", scene(agent(), strings.Join(nodes, " "), crowd...), burst, burst + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tried := map[string]bool{}
			for _, c.s.Failed = range []bool{false, true} {
				clear(tried)
				for i := range c.choices {
					p := planDaemonSet(now.Add(time.Duration(i)*time.Millisecond), c.s)
					for _, line := range lines(p.Steps) {
						tried[line] = true
					}
				}
				if want := map[bool]int{false: c.writes, true: c.choices}[c.s.Failed]; len(tried) != want {
					t.Errorf("failed before: %t: %d are tried, want %d", c.s.Failed, len(tried), want)
				}
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	deleted := func(d *appsv1.DaemonSet) { d.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	selector := func(s *metav1.LabelSelector) edit { return func(d *appsv1.DaemonSet) { d.Spec.Selector = s } }
	for _, c := range []struct {
		name string
		d    *appsv1.DaemonSet
		want []string
	}{
		{"DS-11 being deleted", agent(deleted), nil},
		{"DS-11 an empty selector", agent(selector(&metav1.LabelSelector{})),
			[]string{"event Warning SelectingAll: This daemon set is selecting all pods. A non-empty selector is required."}},
		{"no selector", agent(selector(nil)), nil},
		{"a selector that makes no sense",
			agent(selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}})), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene(c.d, "n1", pod("a", "n1", old), pod("b", "n2", pending))
			is(t, lines(planDaemonSet(now, s).Steps), c.want...)
			is(t, lines(reportStatus(now, s, plan.Outcome{}).Steps))
		})
	}
}

func TestDS16Claims(t *testing.T) {
	stranger := pod("c", "n1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} })
	orphaned := revisionOf(agent(), 2, func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil })
	s := newSnapshot(agent(), []*corev1.Pod{pod("a", "n1"), pod("b", "n1", orphan, failedPhase), stranger},
		[]*appsv1.ControllerRevision{orphaned})
	s.Nodes = nodesOf("n1 n2")
	is(t, lines(planDaemonSet(now, s).Steps), "adopt "+orphaned.Name, "adopt b", "release c")
}

func TestEvents(t *testing.T) {
	s := scene(agent(), "n1 n2 n3", pod("a", "n1", failedPhase), pod("b", "n2", succeededPhase))
	var done, failed []string
	for _, sequence := range planDaemonSet(now, s).Steps[2].(plan.Each).Sequences {
		var events plan.Events
		switch step := sequence[0].(type) {
		case plan.CreateAll:
			events = step.Events
		case plan.Delete:
			events = step.Events
		}
		done, failed = append(done, fmt.Sprint(events.Done)), append(failed, fmt.Sprint(events.Failed))
	}
	is(t, done, "{Normal SuccessfulCreate Created pod: {name}}", "{Normal SuccessfulDelete Deleted pod: {name}}")     // DS-80
	is(t, failed, "{Warning FailedCreate Error creating: {error}}", "{Warning FailedDelete Error deleting: {error}}") // DS-80
	is(t, lines(planDaemonSet(now, s).Steps)[3:],
		"event Normal SucceededDaemonPod: Found succeeded daemon pod shop/b on node n2, will try to delete it", // DS-82
		"event Warning FailedDaemonPod: Found failed daemon pod shop/a on node n1, will try to kill it")        // DS-81
}

// A label that the DaemonSet itself sets may not be in its selector: pods would be made and released without end.
func TestSelectorOfItsOwnLabels(t *testing.T) {
	for _, label := range []string{hashLabel, templateGeneration} {
		set := func(d *appsv1.DaemonSet) {
			d.Spec.Selector.MatchLabels = maps.Clone(d.Spec.Selector.MatchLabels)
			d.Spec.Selector.MatchLabels[label], d.Spec.Template.Labels[label] = "1", "1"
		}
		v := newView(now, snapshot{Set: agent(set)})
		if v.invalid == nil || v.selectsAll {
			t.Errorf("%s: %v", label, v.invalid)
		}
	}
	if v := newView(now, snapshot{Set: agent()}); v.invalid != nil {
		t.Error(v.invalid)
	}
}
