package reconcile

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestKeepsPodsAndReports(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 3)
		w.settle()
		w.wantPods(3)
		if n := w.CountWrites("refused"); n != 0 {
			t.Errorf("%d refused writes: %v", n, w.Log())
		}
		w.put("a", 1)
		w.settle()
		w.wantPods(1)
		if r, ok := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"}); !ok || r.Why != "content" {
			t.Errorf("explain: %+v, %v", r, ok)
		}
		if e := <-w.events.Events; e != "Normal SuccessfulCreate Created pod: a-2" {
			t.Errorf("event: %s", e)
		}
	})
}

// RS-40: a cache that lags, however long, never leads to a pod too many or to a second deletion.
func TestStaleCacheNeverRepeatsAWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.FreezeWatches(podKind)
		w.put("a", 3)
		w.settle()
		w.wantPods(3)
		for range 20 {
			w.put("a", 5) // enqueues the key
			time.Sleep(time.Minute)
		}
		w.wantPods(3)
		w.ResumeWatches(podKind)
		w.settle()
		w.wantPods(5)

		w.FreezeWatches(podKind)
		for range 20 {
			w.put("a", 4) // enqueues the key
			time.Sleep(time.Minute)
		}
		if n := w.CountWrites("delete") + w.CountWrites("refused delete"); n != 1 {
			t.Errorf("%d deletions, want 1", n)
		}
		w.ResumeWatches(podKind)
		w.settle()
		w.wantPods(4)
	})
}

func exceeded(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("exceeded quota"))
}

func TestNeverGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var tries atomic.Int32
		var allowed atomic.Bool
		w.BeforeWrite(func(x clienttest.Write) error {
			if !allowed.Load() && x.Verb == "create" && x.Kind == "Pod" {
				tries.Add(1)
				return exceeded(x.Key.Name)
			}
			return nil
		})
		w.put("a", 1)
		time.Sleep(24 * time.Hour)
		if n := tries.Load(); n < 24*60 || n > 24*60*1.2+20 {
			t.Errorf("%d tries in a day, want one a minute", n)
		}
		allowed.Store(true)
		time.Sleep(61 * time.Second)
		w.wantPods(1)
	})
}

// A controller that works by the clock repeats a failed reconcile after its period, without backoff (PGC-3), but after a minute at
// most: with a long period, much would be left undone for one request that has failed.
func TestPeriod(t *testing.T) {
	for period, want := range map[time.Duration][2]int32{20 * time.Second: {181, 181}, 24 * time.Hour: {60, 61}} {
		inBubble(t, func(t *testing.T, w *world) {
			w.adjust = func(c *Controller[toy, struct{}, int]) { c.Period = period }
			w.start()
			var tries atomic.Int32
			w.BeforeWrite(func(x clienttest.Write) error {
				if x.Kind != "Pod" {
					return nil
				}
				tries.Add(1)
				return exceeded(x.Key.Name)
			})
			w.put("a", 1)
			time.Sleep(time.Hour + time.Second)
			if n := tries.Load(); n < want[0] || n > want[1] {
				t.Errorf("a period of %v: %d tries in an hour, want %d to %d", period, n, want[0], want[1])
			}
		})
	}
}

func TestPanicStaysAtItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var cured atomic.Bool
		w.decide = func(s toy) plan.Plan {
			if s.set.Name == "bad" && !cured.Load() {
				panic("out of my depth")
			}
			return keepPods(s)
		}
		w.start()
		w.put("bad", 1)
		w.put("good", 2)
		time.Sleep(10 * time.Minute)
		w.wantPods(2)
		if n := w.panics.Load(); n < 10 || n > 40 {
			t.Errorf("%d panics, want a retry with backoff", n)
		}
		cured.Store(true)
		time.Sleep(61 * time.Second)
		w.wantPods(3)
	})
}

// A pod that is created and deleted while the watch is interrupted is in no list, and no event tells of it. Its key is reconciled again
// all the same, with a report or without.
func TestVanishedCreationsAreNoticed(t *testing.T) {
	for _, reports := range []bool{true, false} {
		inBubble(t, func(t *testing.T, w *world) {
			if !reports {
				w.adjust = func(c *Controller[toy, struct{}, int]) { c.Report = nil }
			}
			w.start()
			w.FreezeWatches(podKind)
			w.put("a", 1)
			w.settle()
			for _, name := range w.Names(podKind) {
				if err := w.Delete(t.Context(), client.MappingFor[*corev1.Pod](), plan.Key{Namespace: "ns", Name: name},
					metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w.LoseEvents(podKind)
			w.ResumeWatches(podKind)
			w.wantPods(0)
			w.put("b", 1) // its pod shows that the cache has come further than the one that was lost
			time.Sleep(vanishedAfter)
			w.settle()
			w.wantPods(2)
			w.requests()
			time.Sleep(time.Hour)
			w.wantPods(2)
			if n := len(w.requests()); n > 0 {
				t.Errorf("%d more reconciles", n)
			}
		})
	}
}

// A creation that the cache shows has been seen by the reconcile that its event leads to: there is no other one.
func TestCreationsThatAreSeenCostNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 3)
		w.settle()
		w.wantPods(3)
		w.requests()
		time.Sleep(time.Hour)
		if n := len(w.requests()); n > 0 {
			t.Errorf("%d more reconciles", n)
		}
	})
}

func TestWritesNothingWithoutTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Kind == "Pod" {
				return client.ErrNotLeading
			}
			return nil
		})
		w.put("a", 3)
		time.Sleep(time.Hour)
		w.wantPods(0)
		w.BeforeWrite(nil)
		time.Sleep(2 * time.Second)
		w.wantPods(3)
	})
}

// RS-28: a creation refused because the namespace is terminating is neither an error nor worth an event or a retry.
func TestNamespaceTerminatingIsNoError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var tries atomic.Int32
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Kind != "Pod" {
				return nil
			}
			tries.Add(1)
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, x.Key.Name, errors.New("namespace is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		})
		w.put("a", 8)
		time.Sleep(time.Hour)
		if n := tries.Load(); n != 1 {
			t.Errorf("%d tries, want 1", n)
		}
		if len(w.events.Events) != 0 {
			t.Errorf("an event: %s", <-w.events.Events)
		}
	})
}

// A conflict is met once: the key then waits until the cache shows the version that the server holds.
func TestConflictWaitsForTheCache(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 0)
		w.settle()
		w.FreezeWatches(setKind)
		w.put("a", 1) // by somebody else; our cache does not show it
		w.decide = nothing
		w.putPods("a", "p")
		time.Sleep(time.Hour)
		if n := w.CountWrites("refused update"); n != 1 {
			t.Errorf("%d conflicts, want 1:\n%s", n, strings.Join(w.Log(), "\n"))
		}
		w.ResumeWatches(setKind)
		w.settle()
		if n := w.CountWrites("update ReplicaSet"); n != 2 {
			t.Errorf("%d updates, want ours and theirs:\n%s", n, strings.Join(w.Log(), "\n"))
		}
	})
}

// A conflict that nothing explains, because there was none or because a proxy made it up, is soon tried again, ever more
// rarely.
func TestUnexplainedConflictIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 0)
		w.settle()
		var mu sync.Mutex
		var refusals []time.Time
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Verb != "update" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			refusals = append(refusals, time.Now())
			if len(refusals) > 10 {
				return nil
			}
			return apierrors.NewConflict(appsv1.Resource("replicasets"), x.Key.Name, errors.New("made up"))
		})
		w.decide = nothing
		w.putPods("a", "p")
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if len(refusals) != 11 {
			t.Fatalf("%d tries", len(refusals))
		}
		for i, at := range refusals[1:] {
			wait := at.Sub(refusals[i])
			if least := min(time.Second<<i, queue.MaxBackoff); wait < least || wait > least+2*time.Second {
				t.Errorf("try %d after %v, want %v", i+1, wait, least)
			}
		}
	})
}

// A controller is told what became of its reports.
func TestReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var wrote atomic.Int32
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Applied = func(_ context.Context, _ toy, _ struct{}, _, reported plan.Outcome) {
				wrote.Add(int32(len(reported.Results)))
			}
		}
		w.start()
		w.put("a", 1)
		time.Sleep(time.Minute)
		if wrote.Load() == 0 {
			t.Error("told of no status")
		}
	})
}
