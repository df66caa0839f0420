package job

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// starts plays a Job all of whose pods fail at once, and are deleted when they are counted, as the garbage collector of pods may do it. It
// returns how long it was between the starts of the pods.
func starts(w *world, n int, forget bool) (waits []time.Duration) {
	last := w.Now()
	for range 10_000 {
		w.settle()
		if len(w.running()) == 0 {
			w.Sleep(time.Second)
			continue
		}
		if waits, last = append(waits, w.Now().Sub(last)), w.Now(); len(waits) == n {
			break
		}
		w.run()
		for _, p := range w.running() {
			w.end(p.Name, corev1.PodFailed, 1)
		}
		w.settle()
		for _, p := range w.pods() {
			w.Apply(planOf(plan.Delete{Objects: []plan.Object{p}}))
		}
		if w.reap(); forget {
			w.memory = nil
		}
	}
	return waits
}

// JOB-30, JOB-123: the back-off is the larger of what pods and what memory say. Who deletes the failed pods does not end it.
func TestBackoffOfPodsThatAreDeleted(t *testing.T) {
	const s = time.Second
	w := newWorld(sum(1, limit(100)))
	if got, want := starts(w, 8, false),
		[]time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s}; !slices.Equal(got, want) {
		t.Errorf("the pods start after %v, want %v", got, want)
	}
	if n := len(w.pods()); n != 1 {
		t.Errorf("%d pods", n)
	}
	if got := starts(newWorld(sum(1, limit(100))), 3, true); !slices.Equal(got, []time.Duration{0, 0, 0}) {
		t.Errorf("if neither pods nor memory are left: %v", got)
	}
}

// JOB-31: a success ends the row, and what failed before it does not count again when the pod that succeeded is gone.
func TestWhatIsRememberedOfFailures(t *testing.T) {
	before, after := pod("a", failedWith(1, time.Hour)), pod("c", failedWith(1, time.Second))
	success := pod("b", endWith(corev1.PodSucceeded, 0, time.Minute))
	var m *memory
	for _, c := range []struct {
		name string
		pods []*corev1.Pod
		want int
	}{
		{"none", nil, 0},
		{"one", list(before), 1},
		{"the same", list(before), 1},
		{"it is deleted", nil, 1},
		{"another one, which is newer", list(pod("x", failedWith(1, 2*time.Minute))), 2},
		{"one is being deleted by somebody", list(pod("y", failed, terminating)), 2},
		{"a success", list(before, success, after), 1},
		{"the success is deleted", list(before, after), 1},
		{"the failures, too", nil, 1},
		{"a success after all failures", list(after, pod("z", endWith(corev1.PodSucceeded, 0, 0))), 0},
		{"that is deleted, too", list(after), 0},
		{"with all failures", nil, 0},
	} {
		s := snapshotOf(sum(9), c.pods...)
		got := 0
		if m = m.see(now, s); m != nil {
			got = m.Failures
		}
		s.Remembered = m
		if _, failures := backoff(now, s); got != c.want || failures != c.want {
			t.Errorf("%s: %d failures are remembered, the back-off counts %d, want %d", c.name, got, failures, c.want)
		}
	}
	if m := m.see(now, snapshotOf(sum(9, limitPerIndex(1)), after)); m != nil {
		t.Errorf("of a Job with a limit for each index: %+v", m)
	}
}
