package daemonset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DS-35: deleted at once, then after 1s, 2s, 4s, ... up to 15 min.
func TestDS35Delays(t *testing.T) {
	var m *memory
	at := now
	var waited []time.Duration
	for i := range 13 {
		begin := at
		s := scene(agent(), "n1", pod(fmt.Sprint("a", i), "n1", failedPhase))
		for {
			s.Backoff, m = m.see(at, s)
			p := planDaemonSet(at, s)
			if len(p.Steps) > 0 {
				break
			}
			if p.Requeue <= 0 || at.Add(p.Requeue) != s.Backoff["n1"] { // DS-105: the rest of the delay, not all of it
				t.Fatalf("again after %v", p.Requeue)
			}
			at = at.Add(max(p.Requeue/2, 1))
		}
		waited = append(waited, at.Sub(begin).Round(time.Second))
	}
	want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900}
	for i, got := range waited {
		if got != want[i]*time.Second {
			t.Fatalf("waited %v", waited)
		}
	}
}

func TestBackoff(t *testing.T) {
	s := scene(agent(), "n1 n2", pod("a", "n1", failedPhase), pod("b", "n2"))
	_, m := (*memory)(nil).see(now, s)
	soon := now.Add(time.Millisecond)
	again := scene(agent(), "n1 n2", pod("c", "n1", failedPhase), pod("b", "n2")) // a has gone
	for _, c := range []struct {
		name string
		s    view
		at   time.Time
		held bool
	}{
		{"DS-35 the next failure waits", again, soon, true},
		{"DS-35 a pod that is still there was not deleted", s, soon, false},
		{"DS-35 a node does not wait for another", scene(agent(), "n1 n2", pod("a", "n2", failedPhase)), soon, false},
		{"DS-35 a new generation begins anew", func() view {
			s := scene(agent(), "n1", pod("c", "n1", failedPhase))
			s.Set.Status.ObservedGeneration = 3
			return s
		}(), soon, false},
		{"DS-35 so does a long time", again, now.Add(30 * time.Minute), false},
		{"DS-31 what has succeeded does not wait", scene(agent(), "n1", pod("a", "n1", succeededPhase)), soon, false},
		{"DS-34 nor what is misplaced", scene(agent(), "n1!", pod("a", "n1", failedPhase)), soon, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.s
			s.Backoff, _ = m.see(c.at, s)
			if held := len(s.Backoff) > 0; held != c.held || held == (len(endedDeleted(s, c.at)) > 0) {
				t.Errorf("held: %t, planned %v", held, endedDeleted(s, c.at))
			}
		})
	}
	if _, next := m.see(now.Add(time.Hour), scene(agent(), "n1", pod("a", "n1"))); next != nil {
		t.Errorf("still remembered: %+v", next)
	}
	if len(m.Failures) != 1 || m.Failures["n1"].Deleted != now {
		t.Errorf("what was remembered has changed: %+v", m)
	}
}

// DS-28, DS-35: what the limit leaves out is neither told of nor waited for, and neither is what could not be deleted.
func TestDS35OnlyWhatIsDeletedCounts(t *testing.T) {
	var nodes []string
	var pods []*corev1.Pod
	for i := range burst + 50 {
		nodes = append(nodes, fmt.Sprintf("n%03d", i))
		pods = append(pods, pod(fmt.Sprintf("p%03d", i), nodes[i], failedPhase))
	}
	s := scene(agent(), strings.Join(nodes, " "), pods...)
	var m *memory
	s.Backoff, m = m.see(now, s)
	told := map[string]bool{}
	for _, line := range lines(planDaemonSet(now, s).Steps) {
		if name, ok := strings.CutPrefix(line, "event Warning FailedDaemonPod: Found failed daemon pod shop/"); ok {
			told[strings.Fields(name)[0]] = true
		}
	}
	deleted := planned(s)
	if len(told) != burst || len(deleted) != burst {
		t.Errorf("told of %d pods, %d are deleted", len(told), len(deleted))
	}
	for _, line := range deleted {
		if !told[strings.TrimPrefix(line, "delete ")] {
			t.Errorf("not told of: %s", line)
		}
	}
	s = scene(agent(), strings.Join(nodes, " "), pods[burst:]...)
	s.Backoff, m = m.see(now.Add(time.Millisecond), s)
	if ended := endedDeleted(s, now.Add(time.Millisecond)); len(s.Backoff) != 0 || len(ended) != 50 {
		t.Errorf("%d nodes wait, %d pods are deleted", len(s.Backoff), len(ended))
	}
	if f := m.Failures[nodes[burst]]; f.Delay != firstDelay || f.Deleted != now.Add(time.Millisecond) {
		t.Errorf("counted twice: %+v", f)
	}
}

// endedDeleted returns the pods that have ended and are deleted at a time.
func endedDeleted(s view, at time.Time) (names []string) {
	w := &planner{view: s, now: at, budget: budgetOf(s.Set, s.desired())}
	w.placePods()
	for _, p := range w.doomed {
		if p.Status.Phase != corev1.PodRunning {
			names = append(names, p.Name)
		}
	}
	return names
}
