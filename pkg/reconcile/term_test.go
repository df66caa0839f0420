package reconcile

import (
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What a term has in mind to look at again is nothing to the next one, which has a queue of its own.
func TestNoTermLooksForTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.adjust = func(c *Controller[toy, struct{}, int]) { // no event of a pod leads to a reconcile before
			c.Watches[1].Enqueues = func(_, _ plan.Object) []plan.Key { return nil }
		}
		defer w.keepCaches()()
		w.put("a", 1)
		w.settle()
		w.wantPods(1)
		w.stop()
		w.nextTerm()
		w.settle()
		w.requests()
		time.Sleep(vanishedAfter)
		if asked := w.requests(); len(asked) > 0 {
			t.Errorf("%d reconciles", len(asked))
		}
		w.put("a", 2) // a term looks at what it has created itself
		w.settle()
		w.requests()
		time.Sleep(vanishedAfter)
		if asked := w.requests(); len(asked) == 0 {
			t.Error("it does not")
		}
	})
}

// A panic of what maps changes to keys ends at the object: the others are reconciled, and so is this one after its next change.
func TestHandlerPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		bad := true
		w.safe = true
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Watches[0].Enqueues = func(before, after plan.Object) []plan.Key {
				if keys := itself(before, after); bad && keys[0].Name == "bad" {
					panic("no key")
				}
				return itself(before, after)
			}
		}
		before := panics.Total()
		w.start()
		w.put("bad", 1)
		w.put("good", 1)
		w.settle()
		w.wantPods(1)
		if n := panics.Total() - before; n == 0 {
			t.Error("nothing was counted")
		}
		bad = false
		w.put("bad", 2)
		w.settle()
		w.wantPods(3)
	})
}

// Controllers are told a time that goes on steadily while the wall clock of the machine jumps.
func TestTimeIsSteady(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began, machine := time.Now(), time.Duration(0)
		w.decide = nothing
		w.shared.Clock = ClockOf(clock.Of(func() time.Time {
			return plantest.Monotonic(time.Now().Add(machine), time.Since(began))
		}).Now)
		w.start()
		w.requests()
		for _, machine = range []time.Duration{0, time.Hour, -time.Hour} {
			w.put("a", 0)
			w.settle()
			asked := w.requests()
			if len(asked) == 0 {
				t.Fatal("no reconcile")
			}
			if now := asked[0].Now.Round(0); now.Before(began) || now.After(time.Now()) {
				t.Errorf("the machine's clock is %v ahead: %v, began at %v", machine, now, began)
			}
			w.remove("a")
			w.settle()
			w.requests()
		}
	})
}
