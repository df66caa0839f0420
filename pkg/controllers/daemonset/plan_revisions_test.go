package daemonset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// pages returns revisions of the templates v1, v2, ... with these numbers.
func pages(numbers map[string]int64) (all []*appsv1.ControllerRevision) {
	for v, number := range numbers {
		all = append(all, revisionOf(agent(image(v)), number))
	}
	return all
}

func hashFor(v string) string { return presentOf(agent(image(v)), revisions{}).hash }

func nameFor(v string) string { return "agent-" + hashFor(v) }

func TestRevisions(t *testing.T) {
	twin := func(number int64, suffix string) *appsv1.ControllerRevision {
		return revisionOf(agent(), number, func(r *appsv1.ControllerRevision) { r.Name, r.Labels[hashLabel] = "agent-"+suffix, suffix })
	}
	unlabelled := func(r *appsv1.ControllerRevision) { delete(r.Labels, hashLabel) }
	on := func(hash string) podEdit { return func(p *corev1.Pod) { p.Labels[hashLabel] = hash } }
	onlyHash := func(p *corev1.Pod) { delete(p.Labels, templateGeneration) }
	going := func(r *appsv1.ControllerRevision) *appsv1.ControllerRevision {
		r.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		return r
	}
	for _, c := range []struct {
		name      string
		revisions []*appsv1.ControllerRevision
		pods      []*corev1.Pod
		want      []string
	}{
		{"DS-53 none of the present template", pages(map[string]int64{"v1": 3}), nil,
			[]string{"create *v1.ControllerRevision " + nameFor("v2"), "create on n1"}},
		{"DS-53 there is one", pages(map[string]int64{"v1": 3, "v2": 4}), nil, []string{"create on n1"}},
		{"DS-53 it is not the newest any more", pages(map[string]int64{"v1": 3, "v2": 1}), nil,
			[]string{"change " + nameFor("v2") + " revision=4", "create on n1"}},
		{"DS-53 it has the number of another", pages(map[string]int64{"v1": 3, "v2": 3}), nil,
			[]string{"change " + nameFor("v2") + " revision=4", "create on n1"}},
		{"DS-52 without the label",
			[]*appsv1.ControllerRevision{revisionOf(agent(), 2, unlabelled), revisionOf(agent(image("v1")), 1, unlabelled)},
			[]*corev1.Pod{pod("a", "n1", on(nameFor("v2")))},
			[]string{"change " + nameFor("v1") + " hash=" + nameFor("v1"), "change " + nameFor("v2") + " hash=" + nameFor("v2")}},
		{"DS-54 of several the newest stays", []*appsv1.ControllerRevision{twin(4, "x"), twin(6, "y"), twin(5, "z")},
			[]*corev1.Pod{pod("a", "n1", on("x")), pod("b", "n2", on("y")), pod("c", "n3", on("other"))},
			[]string{"change a hash=y", "delete agent-x", "delete agent-z"}},
		{"DS-54 meanwhile nodes get their pods", []*appsv1.ControllerRevision{twin(4, "x"), twin(6, "y")}, nil,
			[]string{"create on n1", "delete agent-x"}},
		{"DS-54 the pod of a duplicate is not an old one", []*appsv1.ControllerRevision{twin(4, "x"), twin(6, "y")},
			[]*corev1.Pod{pod("a", "n1", on("x"), onlyHash)}, []string{"change a hash=y", "delete agent-x"}},
		{"DS-54 a pod that is deleted is not relabelled", []*appsv1.ControllerRevision{twin(4, "x"), twin(6, "y")},
			[]*corev1.Pod{pod("a", "n1", on("x"), failedPhase)}, []string{"delete a", "delete agent-x"}},
		{"DS-54 a duplicate that is being deleted is not deleted again", []*appsv1.ControllerRevision{going(twin(4, "x")), twin(6, "y")},
			nil, []string{"create on n1"}},
		{"DS-54 nor does it stay, though it is the newest", []*appsv1.ControllerRevision{twin(4, "x"), going(twin(6, "y"))},
			[]*corev1.Pod{pod("a", "n1", on("y"), onlyHash)}, []string{"change a hash=x"}},
		{"DS-53 one that is being deleted will do until it is gone", []*appsv1.ControllerRevision{going(twin(6, "y"))},
			[]*corev1.Pod{pod("a", "n1", on("y"), onlyHash)}, nil},
		{"DS-52 an old one that is being deleted is left alone",
			[]*appsv1.ControllerRevision{going(revisionOf(agent(image("v1")), 3, unlabelled)), twin(6, "y")},
			nil, []string{"create on n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSnapshot(agent(), c.pods, c.revisions)
			s.Nodes = nodesOf("n1")
			is(t, planned(s), c.want...)
		})
	}
}

func TestDS50NewRevision(t *testing.T) {
	d := agent(func(d *appsv1.DaemonSet) { d.Annotations["kubernetes.io/change-cause"] = "v2, because" })
	s := newSnapshot(d, nil, pages(map[string]int64{"v1": 7}))
	r := planDaemonSet(now, s).Steps[0].(plan.Create).Object.(*appsv1.ControllerRevision)
	hash := presentOf(d, revisions{}).hash
	if r.Name != "agent-"+hash || r.Revision != 8 || r.Annotations["kubernetes.io/change-cause"] != "v2, because" ||
		r.OwnerReferences[0].UID != d.UID {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff(map[string]string{"app": "agent", "controller-revision-hash": hash}, r.Labels); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(string(r.Data.Raw), `{"spec":{"template":{"$patch":"replace",`) ||
		strings.Contains(string(r.Data.Raw), "creationTimestamp") {
		t.Errorf("data: %s", r.Data.Raw)
	}
}

func TestDS55NameTaken(t *testing.T) {
	other := revisionOf(agent(image("v9")), 1, func(r *appsv1.ControllerRevision) { r.Name = nameFor("v2") })
	s := newSnapshot(agent(), nil, nil)
	s.Nodes, s.Taken = nodesOf("n1"), other
	is(t, planned(s))
	if n := reportStatus(now, s, plan.Outcome{}).Steps[0].(plan.Change).New.(*appsv1.DaemonSet).Status.CollisionCount; n == nil || *n != 1 {
		t.Errorf("collisions: %v", n)
	}
	again := agent(func(d *appsv1.DaemonSet) { d.Status.CollisionCount = ptr.To[int32](1) })
	if name, _ := newRevisionName(again); name == nameFor("v2") {
		t.Error("the same name again")
	}
	s.Taken = revisionOf(agent(), 1, func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil })
	is(t, planned(s), "create on n1") // equal data will do
}

func TestDS58History(t *testing.T) {
	all := pages(map[string]int64{"v1": 1, "v3": 3, "v4": 4, "v5": 5, "v2": 6})
	on := func(v string) podEdit {
		return func(p *corev1.Pod) { p.Labels[hashLabel], p.Labels[templateGeneration] = hashFor(v), "1" }
	}
	for _, c := range []struct {
		name string
		d    *appsv1.DaemonSet
		pods []*corev1.Pod
		want []string
	}{
		{"within the limit", agent(keeps(4)), nil, nil},
		{"the oldest go", agent(keeps(2)), nil, []string{"delete " + nameFor("v1"), "delete " + nameFor("v3")}},
		{"not one that a pod has, but the next", agent(keeps(3)), []*corev1.Pod{pod("a", "n1", on("v1"), terminating, failedPhase)},
			[]string{"delete " + nameFor("v3")}},
		{"none but the present one", agent(keeps(0)), nil,
			[]string{"delete " + nameFor("v1"), "delete " + nameFor("v3"), "delete " + nameFor("v4"), "delete " + nameFor("v5")}},
		{"a limit below zero is none", agent(keeps(-1)), nil,
			[]string{"delete " + nameFor("v1"), "delete " + nameFor("v3"), "delete " + nameFor("v4"), "delete " + nameFor("v5")}},
		{"the default is ten", agent(func(d *appsv1.DaemonSet) { d.Spec.RevisionHistoryLimit = nil }), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			is(t, planned(newSnapshot(c.d, c.pods, all)), c.want...)
		})
	}
	for _, r := range all {
		if r.Revision < 4 { // v1 and v3
			r.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		}
	}
	t.Run("those that are being deleted do not count", func(t *testing.T) {
		is(t, planned(newSnapshot(agent(keeps(2)), nil, all)))
		is(t, planned(newSnapshot(agent(keeps(1)), nil, all)), "delete "+nameFor("v4"))
	})
}

// done returns what comes of steps if the server refuses one of the writes.
func done(steps []plan.Step, refused string) (all []string, ok bool) {
	for _, step := range steps {
		if each, is := step.(plan.Each); is {
			ok := true
			for _, sequence := range each.Sequences {
				some, went := done(sequence, refused)
				all, ok = append(all, some...), ok && went
			}
			if !ok {
				return all, false
			}
			continue
		}
		for _, line := range lines([]plan.Step{step}) {
			if line != refused {
				all = append(all, line)
			}
		}
		if slices.Contains(lines([]plan.Step{step}), refused) {
			return all, false
		}
	}
	return all, true
}

// What the server refuses for a revision keeps no pod from being created or deleted, and the other way round.
func TestRefusedWritesStopNoOthers(t *testing.T) {
	twin := revisionOf(agent(), 1, func(r *appsv1.ControllerRevision) { r.Name, r.Labels[hashLabel] = "agent-twin", "twin" })
	unlabelled := revisionOf(agent(image("v1")), 3, func(r *appsv1.ControllerRevision) { delete(r.Labels, hashLabel) })
	s := newSnapshot(agent(keeps(2)), []*corev1.Pod{
		pod("a", "n1", failedPhase), pod("b", "n2", func(p *corev1.Pod) { p.Labels[hashLabel] = "twin" }),
	}, append(pages(map[string]int64{"v2": 2, "v3": 4, "v4": 5}), twin, unlabelled))
	s.Nodes = nodesOf("n1 n2 n3")
	steps := planDaemonSet(now, s).Steps
	all, _ := done(steps, "")
	writes := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return strings.HasPrefix(line, "event") })
	is(t, slices.Sorted(slices.Values(writes)), "create on n3", "delete a", "change b hash="+hashFor("v2"), "delete agent-twin",
		"change "+unlabelled.Name+" hash="+unlabelled.Name, "change "+nameFor("v2")+" revision=6", "delete "+nameFor("v3"))
	for _, refused := range writes {
		rest, ok := done(steps, refused)
		missing := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return slices.Contains(rest, line) })
		slices.Sort(missing)
		want := []string{refused}
		if strings.HasPrefix(refused, "change b") {
			want = append(want, "delete agent-twin") // as long as a pod has its hash
		}
		if ok {
			t.Errorf("%s was not tried", refused)
		}
		is(t, missing, want...)
	}
}
