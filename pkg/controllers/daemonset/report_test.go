package daemonset

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func statusOf(p plan.Plan) *appsv1.DaemonSetStatus {
	if len(p.Steps) == 0 {
		return nil
	}
	return &p.Steps[0].(plan.Change).New.(*appsv1.DaemonSet).Status
}

// numbers are desired, current, misscheduled, ready, available, updated.
type numbers [6]int32

func TestDS70Status(t *testing.T) {
	for _, c := range []struct {
		name  string
		d     *appsv1.DaemonSet
		nodes string
		pods  []*corev1.Pod
		want  numbers
	}{
		{"DS-70a eligible nodes are desired", agent(), "n1 n2 n3~ n4!", nil, numbers{2, 0, 0, 0, 0, 0}},
		{"DS-70b any pod will do", agent(), "n1 n2 n3",
			[]*corev1.Pod{pod("a", "n1", pending), pod("b", "n2", terminating, unready), pod("c", "n3", failedPhase)},
			numbers{3, 3, 0, 0, 0, 3}},
		{"DS-16 but not one that has ended and is being deleted", agent(), "n1", []*corev1.Pod{pod("a", "n1", failedPhase, terminating)},
			numbers{1, 0, 0, 0, 0, 0}},
		{"DS-70c misscheduled, tolerated or not", agent(), "n1 n2~ n3!", []*corev1.Pod{pod("a", "n1"), pod("b", "n2"), pod("c", "n3")},
			numbers{1, 1, 2, 1, 1, 1}},
		{"DS-70d judged by the first pod", agent(), "n1", []*corev1.Pod{pod("a", "n1", unready), pod("b", "n1", age(time.Second))},
			numbers{1, 1, 0, 0, 0, 1}},
		{"DS-70d that runs", agent(), "n1", []*corev1.Pod{pod("a", "n1", old, terminating), pod("b", "n1", age(time.Second))},
			numbers{1, 1, 0, 1, 1, 1}},
		{"DS-97 with a surge, by the old pod", agent(moves("1", "0")), "n1",
			[]*corev1.Pod{pod("a", "n1", old), pod("b", "n1", unready, age(time.Second))}, numbers{1, 1, 0, 1, 1, 0}},
		{"DS-107 until the new one is available", agent(moves("1", "0")), "n1",
			[]*corev1.Pod{pod("a", "n1", old), pod("b", "n1", age(time.Second))}, numbers{1, 1, 0, 1, 1, 1}},
		{"DS-70d ready, but not for long enough", agent(minReady(60)), "n1 n2",
			[]*corev1.Pod{pod("a", "n1", readyFor(30*time.Second)), pod("b", "n2")}, numbers{2, 2, 0, 2, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene(c.d, c.nodes, c.pods...)
			got := statusOf(reportStatus(now, s, plan.Outcome{}))
			if got == nil {
				t.Fatal("no status")
			}
			if diff := cmp.Diff(c.want,
				numbers{got.DesiredNumberScheduled, got.CurrentNumberScheduled, got.NumberMisscheduled, got.NumberReady,
					got.NumberAvailable, got.UpdatedNumberScheduled}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.NumberUnavailable != got.DesiredNumberScheduled-got.NumberAvailable { // DS-70e
				t.Errorf("%d unavailable", got.NumberUnavailable)
			}
		})
	}
}

// reported is a DaemonSet whose status says that so many nodes are fine.
func reported(n int32, edits ...edit) *appsv1.DaemonSet {
	return agent(append([]edit{func(d *appsv1.DaemonSet) {
		d.Status = appsv1.DaemonSetStatus{
			ObservedGeneration: d.Generation, DesiredNumberScheduled: n, CurrentNumberScheduled: n, UpdatedNumberScheduled: n,
			NumberReady: n, NumberAvailable: n,
			Conditions: []appsv1.DaemonSetCondition{{Type: "Mine"}},
		}
	}}, edits...)...)
}

func TestStatusWrites(t *testing.T) {
	refused := plan.Outcome{Err: errors.New("refused"), Results: []plan.Result{{Verb: plan.Created, Err: errors.New("refused")}}}
	for _, c := range []struct {
		name   string
		s      view
		did    plan.Outcome
		writes bool
	}{
		{"DS-72 nothing differs", scene(reported(1), "n1", pod("a", "n1")), plan.Outcome{}, false},
		{"DS-72 a number differs", scene(reported(1), "n1", pod("a", "n1", unready)), plan.Outcome{}, true},
		{"DS-72 the generation is behind", scene(reported(1, func(d *appsv1.DaemonSet) { d.Generation++ }), "n1", pod("a", "n1")),
			plan.Outcome{}, true},
		{"DS-15 after an error", scene(reported(1), "n1"), refused, true},
		{"the namespace is being deleted", scene(reported(1), "n1"), plan.Outcome{Stopped: true}, false},
		{"a pod could not be adopted", scene(reported(1), "n1", pod("a", "n1", orphan, unready)),
			plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Err: errors.New("no")}}}, false},
		{"DS-15 a revision could not be renumbered", scene(reported(1), "n1"),
			plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Err: errors.New("no")}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := statusOf(reportStatus(now, c.s, c.did))
			if (got != nil) != c.writes {
				t.Fatalf("status: %+v", got)
			}
			if got != nil && (got.ObservedGeneration != c.s.Set.Generation || len(got.Conditions) != 1) { // DS-70f, DS-71
				t.Errorf("status: %+v", got)
			}
		})
	}
}

// DS-75: who waits for the end of a rollout sees it at once; progress is debounced.
func TestDebounce(t *testing.T) {
	wrote := plan.Outcome{Results: []plan.Result{{Verb: plan.Created}}}
	for _, c := range []struct {
		name string
		s    view
		did  plan.Outcome
		want bool
	}{
		{"complete", scene(agent(), "n1", pod("a", "n1")), plan.Outcome{}, false},
		{"pods become available", scene(agent(), "n1 n2", pod("a", "n1"), pod("b", "n2", unready)), plan.Outcome{}, true},
		{"pods were created", scene(agent(), "n1 n2", pod("a", "n1")), wrote, true},
		{"a pod terminates", scene(agent(), "n1~", pod("a", "n1", terminating)), plan.Outcome{}, true},
		{"OnDelete does not wait for old pods", scene(agent(onDelete), "n1", pod("a", "n1", old)), plan.Outcome{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reportStatus(now, c.s, c.did)
			if p.Empty() || (p.When.Quiet > 0) != c.want || p.When.Longest > time.Second {
				t.Errorf("debounced for %v, %v", p.When.Quiet, p.When.Longest)
			}
		})
	}
	s := scene(agent(func(d *appsv1.DaemonSet) { d.Generation++ }), "n1 n2", pod("a", "n1"))
	if p := reportStatus(now, s, wrote); p.When.Quiet != plan.Soon().Longest || p.When.Longest != plan.Soon().Longest {
		t.Errorf("a new generation: %v, %v", p.When.Quiet, p.When.Longest)
	}
}

func TestDS73Requeue(t *testing.T) {
	s := scene(reported(2, minReady(60)), "n1 n2", pod("a", "n1", readyFor(50*time.Second)), pod("b", "n2", readyFor(20*time.Second)))
	if p := reportStatus(now, s, plan.Outcome{}); p.Requeue != 10*time.Second {
		t.Errorf("again after %v", p.Requeue)
	}
}

// A pod that an eviction has ended may still say that it is ready.
func TestEndedPodsAreNotAvailable(t *testing.T) {
	evicted := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	s := scene(agent(), "n1 n2", pod("a", "n1", evicted), pod("b", "n2", old))
	s.Backoff = map[string]time.Time{"n1": now.Add(time.Second)}
	if c := s.count(now); c.ready != 1 || c.available != 1 {
		t.Errorf("%+v", c)
	}
	is(t, planned(s))
}
