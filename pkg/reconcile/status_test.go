package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// highest watches the status for some time, every second, and returns the highest values.
func (w *world) highest(during time.Duration) (stuck, idle time.Duration) {
	for range int(during / time.Second) {
		time.Sleep(time.Second)
		s := w.status()
		stuck, idle = max(stuck, s.Stuck), max(idle, s.Idle)
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
		if s := w.status(); !s.Running || s.Stuck != 0 || s.Queued != 0 || s.Name != "toy" {
			t.Errorf("at rest: %+v", s)
		}
		w.put("bad", 1)
		w.put("good", 1)
		time.Sleep(10 * time.Minute)
		if s := w.status(); s.Stuck < 10*time.Minute || s.Key.Name != "bad" || s.Idle != 0 {
			t.Errorf("stuck at a key: %+v", s)
		}
		w.wantPods(1)
		once.Do(func() { close(release) })
		w.settle()
		if s := w.status(); s.Stuck != 0 {
			t.Errorf("recovered: %+v", s)
		}
		w.wantPods(2)
	})
}

// Thousands of slow writes are progress, however long the reconcile takes.
func TestALongReconcileIsNotStuck(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lag = func(context.Context) error { time.Sleep(20 * time.Second); return nil }
		w.start()
		w.put("big", 1000)
		stuck, _ := w.highest(10 * time.Minute)
		if stuck > time.Minute || stuck < 15*time.Second {
			t.Errorf("stuck for %v", stuck)
		}
		if n := w.CountWrites("create Pod"); n < 500 || n >= 1000 {
			t.Errorf("%d pods were created: the reconcile was to be under way for all that time", n)
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
		if stuck > client.RequestTimeout+time.Second || idle > client.RequestTimeout+time.Second {
			t.Errorf("stuck for %v, idle for %v", stuck, idle)
		}
		if s := w.status(); s.Failing == 0 {
			t.Errorf("nothing fails: %+v", s)
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
		if s := w.status(); s.Queued != 2 || s.Idle < 3*time.Minute-time.Second {
			t.Errorf("all workers are stuck: %+v", s)
		}
		close(release)
		w.settle()
		if s := w.status(); s.Queued != 0 || s.Idle != 0 {
			t.Errorf("recovered: %+v", s)
		}
		w.wantPods(5)
	})
}

func TestStatusOfARunnerThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lag = func(context.Context) error { return errors.New("no") }
		w.put("a", 1)
		w.start()
		time.Sleep(time.Minute)
		if s := w.status(); !s.Running || s.Failing != 1 {
			t.Errorf("%+v", s)
		}
		w.stop()
		if s := w.status(); s.Running || s.Failing != 0 || s.Debounced != 0 || s.Stuck != 0 || s.Idle != 0 {
			t.Errorf("%+v", s)
		}
		synctest.Wait()
	})
}

// Health checks and metrics ask at any time, also while a term begins or ends.
func TestStatusWhileTermsChange(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		stopCaches := w.keepCaches()
		defer stopCaches()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 1000 {
				w.status()
				time.Sleep(time.Millisecond)
			}
		}()
		for range 10 {
			time.Sleep(50 * time.Millisecond)
			w.stop()
			w.nextTerm()
		}
		<-done
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
		if s := w.status(); s.Failing != 3 {
			t.Errorf("%+v", s)
		}
		found, total := w.runner.explained.Failing(2)
		if total != 3 || len(found) != 2 || found[0].Key.Name != "a" || found[1].Key.Name != "b" || found[0].Retries < 5 {
			t.Errorf("%d, %+v", total, found)
		}
		if n := w.counted("create pods 403"); n < 15 || n != w.counted("retry") || n != w.counted(string(Failed)) {
			t.Errorf("counted %v", w.counts)
		}
		w.remove("a")
		w.settle()
		if s := w.status(); s.Failing != 2 {
			t.Errorf("one has gone: %+v", s)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		if s := w.status(); s.Failing != 0 {
			t.Errorf("recovered: %+v", s)
		}
		if _, total := w.runner.explained.Failing(10); total != 0 {
			t.Errorf("%d keys are said to be failing", total)
		}
	})
}
