package replicas

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// rejected are n pods that a kubelet would not have, the newest so old, the others each so much older.
func rejected(n int, newest, apart time.Duration) (all []*corev1.Pod) {
	for i := range n {
		p := pod(fmt.Sprintf("r%d", i), phase(corev1.PodFailed), created(newest+time.Duration(i)*apart))
		p.Status.Conditions, p.Status.Reason = nil, "OutOfcpu"
		all = append(all, p)
	}
	return all
}

// seen looks at the set as a process does that has just seen the newest pod fail.
func seen(set *appsv1.ReplicaSet, all []*corev1.Pod, edits ...func(*view)) view {
	s := snapshotOf(set, all)
	s.Failures.Last = now
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func TestPodsThatFailAtStart(t *testing.T) {
	aged := func(age time.Duration) podEdit {
		return func(p *corev1.Pod) { created(age)(p); ready(age)(p) }
	}
	ranFor := func(age, ran time.Duration) podEdit {
		return func(p *corev1.Pod) {
			created(age)(p)
			phase(corev1.PodFailed)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse,
				LastTransitionTime: ago(age - ran)}}
		}
	}
	for _, c := range []struct {
		name  string
		s     view
		pause time.Duration
	}{
		{"five in a row are replaced at once", seen(web(1), rejected(5, 0, time.Second)), 0},
		{"the sixth after 10s", seen(web(1), rejected(6, 0, time.Second)), 10 * time.Second},
		{"the seventh after 20s", seen(web(1), rejected(7, 0, time.Second)), 20 * time.Second},
		{"the tenth after 160s", seen(web(1), rejected(10, 0, time.Second)), 160 * time.Second},
		{"then every 5m", seen(web(1), rejected(11, 0, time.Second)), 5 * time.Minute},
		{"however many there are", seen(web(1), rejected(500, 0, time.Second)), 5 * time.Minute},
		{"however fast they fail", seen(web(1), rejected(6, 0, 0)), 10 * time.Second},
		{"pods that fail together are one failure of the set", seen(web(10), rejected(50, 0, 0)), 0},
		{"but no fewer than it takes with all replicas at a time", seen(web(10), rejected(51, 0, 0)), 10 * time.Second},
		{"one of ten replicas that goes on failing", seen(web(10), append(pods(9), rejected(6, 0, time.Second)...)), 10 * time.Second},
		{"a pod that has run for 10m ends the row",
			seen(web(2), append(rejected(9, 11*time.Minute, time.Second), pod("a", aged(21*time.Minute+time.Second)))), 0},
		{"one that has not yet does not", seen(web(2), append(rejected(6, 5*time.Minute, time.Second), pod("a", aged(9*time.Minute)))),
			10 * time.Second},
		{"failures after the 10m count", seen(web(2), append(rejected(6, 0, time.Second), pod("a", aged(time.Hour)))), 10 * time.Second},
		{"a pod that failed after it had run is no failure at start", seen(web(1), pods(9, ranFor(time.Hour, 11*time.Minute))), 0},
		{"one that ran for less than 10m is",
			seen(web(1), append(rejected(5, 0, time.Second), pod("a", ranFor(time.Minute, 50*time.Second)))), 10 * time.Second},
		{"pods that have succeeded are none", seen(web(1), pods(9, phase(corev1.PodSucceeded), created(0))), 0},
		{"nor those of others", seen(web(1), pods(9, phase(corev1.PodFailed), created(0), controlledBy("other"))), 0},
		{"another template is another chance", seen(web(1), rejected(9, time.Minute, time.Second), func(s *view) {
			s.Failures.TemplateSince = now.Add(-time.Second)
		}), 0},
		{"opted out", seen(web(1), rejected(9, 0, time.Second), func(s *view) { s.Disabled.PodFailureBackoff = true }), 0},
		{"the pause is over", seen(web(1), rejected(6, 10*time.Second, time.Second), func(s *view) {
			s.Failures.Last = now.Add(-10 * time.Second)
		}), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planPods(now, c.s)
			creates, _, _ := planned(p)
			if pausing := creates == 0; pausing != (c.pause > 0) || p.Requeue != c.pause {
				t.Errorf("creates %d, looks again after %v, want a pause of %v: %s", creates, p.Requeue, c.pause, p.Why)
			}
		})
	}
}

func TestAPauseIsReported(t *testing.T) {
	s := seen(web(1), rejected(6, 0, time.Second))
	rep := reportStatus(now, s, plan.Outcome{})
	status := written(t, rep)
	if status == nil || len(status.Conditions) != 1 {
		t.Fatalf("status %+v, want one condition", status)
	}
	change := rep.Steps[0].(plan.Change)
	const want = "pods have failed at start 6 times in a row, the last was r0 (OutOfcpu); they are replaced with a pause of 10s"
	c, e := status.Conditions[0], change.Events.Done
	if c.Type != appsv1.ReplicaSetReplicaFailure || c.Reason != "BackOff" || c.Message != want || rep.When.Quiet != 0 {
		t.Errorf("condition %+v, debounced for %v", c, rep.When.Quiet)
	}
	if e.Type != corev1.EventTypeWarning || e.Reason != "BackOff" || e.Message != want {
		t.Errorf("event %+v", e)
	}
	if p := planPods(now, s); !strings.Contains(p.Why, want) {
		t.Errorf("explain says %q", p.Why)
	}

	s.Set = OfReplicaSet(s.Set.withStatus(*status).(*appsv1.ReplicaSet))
	if again := reportStatus(now.Add(time.Second), s, plan.Outcome{}); len(again.Steps) != 0 {
		t.Error("the same pause is reported twice")
	}
}

// A set whose pods always fail makes few of them, and one that is well again is soon whole.
func TestFallingRate(t *testing.T) {
	for _, replicas := range []int32{1, 3, 10} {
		set, began := web(replicas), now
		var all []*corev1.Pod
		var w *failureHistory
		for passed := time.Duration(0); passed < 10*time.Minute; passed += 100 * time.Millisecond {
			at := began.Add(passed)
			s := snapshotOf(set, all)
			if w = w.see(at, s.snapshot); w != nil {
				s.Failures = w.failures
			}
			creates, _, _ := planned(planPods(at, s))
			for range creates {
				p := pod(fmt.Sprintf("p%d", len(all)), phase(corev1.PodFailed), createdAt(metav1.NewTime(at.Truncate(time.Second))))
				p.Status.Conditions = nil
				all = append(all, p)
			}
		}
		// Five at once, then after 10, 20, 40, 80, 160 and 300s; the first second may pass for one failure.
		if n := len(all); n < 6*int(replicas) || n > 13*int(replicas) {
			t.Errorf("%d replicas: %d pods in 10 minutes", replicas, n)
		}
	}
}

// Whatever the clocks say, nothing is put off for longer than the longest pause.
func TestClocksThatDiffer(t *testing.T) {
	for _, skew := range []time.Duration{-24 * time.Hour, 0, 24 * time.Hour} {
		s := snapshotOf(web(1), rejected(9, skew, time.Second))
		var w *failureHistory
		w = w.see(now, s.snapshot)
		s.Failures = w.failures
		if p := planPods(now, s); p.Requeue > longestPause {
			t.Errorf("skew %v: looks again after %v", skew, p.Requeue)
		}
		s.Failures = w.see(now.Add(longestPause), s.snapshot).failures
		if creates, _, _ := planned(planPods(now.Add(longestPause), s)); creates != 1 {
			t.Errorf("skew %v: nothing is created after the longest pause", skew)
		}
	}
}

func TestWitness(t *testing.T) {
	set := web(1)
	var w *failureHistory
	if w = w.see(now, snapshotOf(set, pods(1)).snapshot); w != nil {
		t.Fatal("remembers a set without failed pods")
	}
	s := snapshotOf(set, rejected(1, time.Minute, 0))
	w = w.see(now, s.snapshot)
	if want := now.Add(-time.Minute); !w.Last.Equal(want) || !w.TemplateSince.IsZero() {
		t.Errorf("first look: %+v, want what the pod says", w.failures)
	}
	s.Pods = rejected(2, time.Second, time.Second)
	s.Pods[0].UID = "new"
	if w = w.see(now, s.snapshot); !w.Last.Equal(now) {
		t.Errorf("a new failure was seen at %v, not %v", now, w.Last)
	}
	later := now.Add(time.Second)
	s.Set = OfReplicaSet(set.DeepCopy())
	if w = w.see(later, s.snapshot); !w.TemplateSince.IsZero() || !w.Last.Equal(now) {
		t.Errorf("nothing has changed: %+v", w.failures)
	}
	s.Set.Spec.Template = *s.Set.Spec.Template.DeepCopy()
	s.Set = OfReplicaSet(s.Set.Object.DeepCopyObject().(*appsv1.ReplicaSet))
	s.Set.Spec.Template.Spec.Containers[0].Image = "web:2"
	if w = w.see(later, s.snapshot); !w.TemplateSince.Equal(later) {
		t.Errorf("another template was seen at %v, not %v", later, w.TemplateSince)
	}
}
