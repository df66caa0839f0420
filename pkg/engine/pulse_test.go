package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// highest watches the pulse for some time, every second, and returns the highest values.
func (w *world) highest(during time.Duration) (stuck, idle time.Duration) {
	for range int(during / time.Second) {
		time.Sleep(time.Second)
		p := w.runner.Pulse()
		stuck, idle = max(stuck, p.Stuck), max(idle, p.Idle)
	}
	return stuck, idle
}

func TestAWorkerThatIsStuckIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		var once sync.Once
		w.decide = func(s toy) plan.Plan {
			if s.set.Name == "bad" {
				<-release
			}
			return keepPods(s)
		}
		w.start()
		defer once.Do(func() { close(release) })
		if p := w.runner.Pulse(); !p.Running || p.Stuck != 0 || p.Queued != 0 || p.Name != "toy" {
			t.Errorf("at rest: %+v", p)
		}
		w.put("bad", 1)
		w.put("good", 1)
		time.Sleep(10 * time.Minute)
		if p := w.runner.Pulse(); p.Stuck < 10*time.Minute || p.Key.Name != "bad" || p.Idle != 0 {
			t.Errorf("stuck at a key: %+v", p)
		}
		w.wantPods(1)
		once.Do(func() { close(release) })
		w.settle()
		if p := w.runner.Pulse(); p.Stuck != 0 {
			t.Errorf("recovered: %+v", p)
		}
		w.wantPods(2)
	})
}

// Thousands of slow writes are progress, however long the pass takes.
func TestALongPassIsNotStuck(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lag = func(context.Context) error { time.Sleep(20 * time.Second); return nil }
		w.start()
		w.put("big", 1000)
		stuck, _ := w.highest(10 * time.Minute)
		if stuck > time.Minute || stuck < 15*time.Second {
			t.Errorf("stuck for %v", stuck)
		}
		if n := w.count("create Pod"); n < 500 || n >= 1000 {
			t.Errorf("%d pods were created: the pass was to be under way for all that time", n)
		}
		time.Sleep(10 * time.Minute)
		w.wantPods(1000)
	})
}

// An API server that never answers is not a fault of the workers: a restart would not heal it.
func TestAHungServerIsNotStuck(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lag = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for i := range 50 {
			w.put(fmt.Sprintf("a-%d", i), 10)
		}
		w.start()
		stuck, idle := w.highest(20 * time.Minute)
		if stuck > requestTimeout+time.Second || idle > requestTimeout+time.Second {
			t.Errorf("stuck for %v, idle for %v", stuck, idle)
		}
		if p := w.runner.Pulse(); p.Failing == 0 {
			t.Errorf("nothing fails: %+v", p)
		}
	})
}

func TestAQueueThatNobodyServesIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.decide = func(s toy) plan.Plan {
			<-release
			return keepPods(s)
		}
		w.start() // three workers
		for i := range 5 {
			w.put(fmt.Sprintf("a-%d", i), 1)
		}
		time.Sleep(3 * time.Minute)
		if p := w.runner.Pulse(); p.Queued != 2 || p.Idle < 3*time.Minute-time.Second {
			t.Errorf("all workers are stuck: %+v", p)
		}
		close(release)
		w.settle()
		if p := w.runner.Pulse(); p.Queued != 0 || p.Idle != 0 {
			t.Errorf("recovered: %+v", p)
		}
		w.wantPods(5)
	})
}

func TestPulseOfARunnerThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lag = func(context.Context) error { return errors.New("no") }
		w.put("a", 1)
		w.start()
		time.Sleep(time.Minute)
		if p := w.runner.Pulse(); !p.Running || p.Failing != 1 {
			t.Errorf("%+v", p)
		}
		w.stop()
		w.stop = nil
		if p := w.runner.Pulse(); p.Running || p.Failing != 0 || p.Held != 0 || p.Stuck != 0 || p.Idle != 0 {
			t.Errorf("%+v", p)
		}
		synctest.Wait()
	})
}

func TestFailingKeysAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		broken := true
		w.lag = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return apierrors.NewForbidden(appsv1.Resource("pods"), "", errors.New("quota"))
			}
			return nil
		}
		w.start()
		for _, name := range []string{"c", "a", "b"} {
			w.put(name, 1)
		}
		time.Sleep(time.Minute)
		if p := w.runner.Pulse(); p.Failing != 3 {
			t.Errorf("%+v", p)
		}
		found, total := w.shared.Explain.Troubled("toy", 2)
		if total != 3 || len(found) != 2 || found[0].Key.Name != "a" || found[1].Key.Name != "b" || found[0].Retries < 5 {
			t.Errorf("%d, %+v", total, found)
		}
		if n := w.counted("create pods 403"); n < 15 || n != w.counted("retry") || n != w.counted(string(Failed)) {
			t.Errorf("counted %v", w.counts)
		}
		k, _ := KindOf(&appsv1.ReplicaSet{})
		set, err := w.Get(t.Context(), k, "ns", "a")
		if err != nil {
			t.Fatal(err)
		}
		uid := set.GetUID()
		if err := w.Delete(t.Context(), k, "ns", "a", deleteOptions(uid)); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if p := w.runner.Pulse(); p.Failing != 2 {
			t.Errorf("one has gone: %+v", p)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		if p := w.runner.Pulse(); p.Failing != 0 {
			t.Errorf("recovered: %+v", p)
		}
		if _, total := w.shared.Explain.Troubled("toy", 10); total != 0 {
			t.Errorf("%d keys are said to be in trouble", total)
		}
	})
}

// A key that has failed and then has nothing to tell must not be shown as failing for ever.
func TestARecordOfTroubleIsReplaced(t *testing.T) {
	e, key := NewExplain(), plan.Key{Name: "a"}
	e.Put("toy", key, Record{})
	if _, ok := e.Get("toy", key); ok {
		t.Error("a record that says nothing was kept")
	}
	e.Put("toy", key, Record{Error: "no"})
	e.Put("toy", key, Record{})
	if r, ok := e.Get("toy", key); !ok || r.Error != "" {
		t.Errorf("%+v, %v", r, ok)
	}
	e.clear("toy")
	if _, ok := e.Get("toy", key); ok {
		t.Error("a record has outlived its term")
	}
}

func TestHooksTellTheResults(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = func(s toy) plan.Plan {
			if s.set.Name == "bad" {
				panic("out of my depth")
			}
			return keepPods(s)
		}
		w.start()
		w.put("a", 2)
		w.settle()
		w.put("bad", 1)
		w.freeze(podKind, true)
		w.put("a", 3)
		w.settle()
		w.put("a", 4)
		w.settle()
		w.freeze(podKind, false)
		w.settle()
		for _, what := range []string{
			string(Wrote), string(Unchanged), string(Waiting), string(Panicked), "retry",
			"create pods 201", "update replicasets 200", "stale pods",
		} {
			if w.counted(what) == 0 {
				t.Errorf("%q was not counted: %v", what, w.counts)
			}
		}
		if w.counted("create pods 201") != 4 {
			t.Errorf("4 pods were created: %v", w.counts)
		}
	})
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		verb string
		err  error
		want string
	}{
		{"create", nil, "201"},
		{"delete", nil, "200"},
		{"patch", fmt.Errorf("wrapped: %w", apierrors.NewConflict(appsv1.Resource("pods"), "a", nil)), "409"},
		{"create", apierrors.NewGenericServerResponse(http.StatusBadGateway, "post", appsv1.Resource("pods"), "a", "", 0, true), "502"},
		{"update", context.DeadlineExceeded, "<error>"},
	} {
		if got := codeOf(c.verb, c.err); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.verb, c.err, got, c.want)
		}
	}
}

// The queue of a term that has ended must not go on to show a depth.
func TestTheQueueIsEmptiedAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.decide = func(toy) plan.Plan { <-release; return plan.Plan{} }
		w.start()
		for i := range 10 {
			w.put(fmt.Sprintf("a-%d", i), 1)
		}
		w.settle()
		queue := w.runner.queue
		if queue.Len() != 7 {
			t.Errorf("%d keys wait, want 7", queue.Len())
		}
		go func() { time.Sleep(time.Second); close(release) }()
		w.stop()
		w.stop = nil
		if queue.Len() != 0 {
			t.Errorf("%d keys are left", queue.Len())
		}
		if n := w.counted(string(Unchanged)); n > 3 {
			t.Errorf("%d keys were looked at after the end", n)
		}
	})
}

func TestResultsAreListed(t *testing.T) {
	for _, c := range []struct {
		rec      Record
		err      error
		panicked bool
	}{{}, {Record{Wrote: 1}, nil, false}, {Record{Waiting: "Pod"}, nil, false}, {Record{}, plan.ErrStale, false}, {Record{}, errors.New("no"), false}, {Record{}, nil, true}} {
		if r := resultOf(&c.rec, c.err, c.panicked); !slices.Contains(Results(), r) {
			t.Errorf("%q is not listed", r)
		}
	}
}

func deleteOptions(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}
