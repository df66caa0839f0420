package reconcile

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Observe is told how the last reconcile of the key has failed, until one succeeds.
func TestObserveIsToldOfAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var refused atomic.Int32
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Verb == "create" && x.Kind == "Pod" && refused.Add(1) <= 2 {
				return exceeded(x.Key.Name)
			}
			return nil
		})
		w.put("a", 1)
		time.Sleep(time.Second)
		w.wantPods(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		failures := 0
		for _, r := range w.asked {
			if r.Failure != nil && strings.Contains(r.Failure.Error(), "exceeded quota") {
				failures++
			}
		}
		if last := w.asked[len(w.asked)-1]; failures != 2 || w.asked[0].Failure != nil || last.Failure != nil {
			t.Errorf("told of %d failures, and last of %v", failures, last.Failure)
		}
	})
}

// A debounced report that is refused is tried again ever more rarely, although each try follows a reconcile that only waits.
func TestRefusedReportsBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.debounce = time.Second
		w.start()
		var refused atomic.Int32
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Options.Subresource == plan.Status {
				refused.Add(1)
				return exceeded(x.Key.Name)
			}
			return nil
		})
		w.put("a", 1)
		time.Sleep(5 * time.Minute)
		if n := refused.Load(); n < 10 || n > 25 {
			t.Errorf("%d tries in five minutes", n)
		}
		if s := w.status(); s.Failing != 1 {
			t.Errorf("%+v", s)
		}
		w.BeforeWrite(func(clienttest.Write) error { return nil })
		time.Sleep(2 * time.Minute)
		if s := w.status(); s.Failing != 0 || s.Debounced != 0 {
			t.Errorf("after it was written: %+v", s)
		}
	})
}

// refusePods refuses the creation of pods, but for those of some names, and counts that.
func (w *world) refusePods(but ...string) *atomic.Int32 {
	refused := &atomic.Int32{}
	w.BeforeWrite(func(x clienttest.Write) error {
		if x.Verb == "create" && x.Kind == "Pod" && !slices.Contains(but, x.Key.Name) {
			refused.Add(1)
			return exceeded(x.Key.Name)
		}
		return nil
	})
	return refused
}

// A plan that is refused is tried again ever more rarely, although it asks to be made again each second.
func TestRefusedPlansThatRequeueBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = func(s toy) plan.Plan {
			p := keepPods(s)
			p.Requeue = time.Second
			return p
		}
		w.start()
		refused := w.refusePods()
		w.put("a", 1)
		time.Sleep(5 * time.Minute)
		if n := refused.Load(); n < 10 || n > 25 {
			t.Errorf("%d tries in five minutes", n)
		}
	})
}

// So is one whose report asks to be made again each second, and has nothing new to say.
func TestRefusedPlansWhoseReportsRequeueBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.due = time.Second
		w.start()
		refused := w.refusePods()
		w.put("a", 1)
		time.Sleep(5 * time.Minute)
		if n := refused.Load(); n < 10 || n > 25 {
			t.Errorf("%d tries in five minutes", n)
		}
	})
}

// A refusal that lasts is told of, also where no step has an event for it, and where the server only asks for patience.
func TestLastingRefusalsAreTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(x clienttest.Write) error
		want   string
	}{
		{"of a report", func(x clienttest.Write) error {
			if x.Options.Subresource == plan.Status {
				return exceeded(x.Key.Name)
			}
			return nil
		}, "Warning FailedUpdate Cannot update the status of ReplicaSet a, tries again: "},
		{"that asks for patience", func(x clienttest.Write) error {
			if x.Verb == "create" && x.Kind == "Pod" {
				return apierrors.NewTooManyRequests("a webhook is busy", 1)
			}
			return nil
		}, "Warning FailedCreate Cannot create Pod a-*, tries again: a webhook is busy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				told := func() (n int) {
					for len(w.events.Events) > 0 {
						if strings.HasPrefix(<-w.events.Events, c.want) {
							n++
						}
					}
					return n
				}
				w.start()
				w.BeforeWrite(c.refuse)
				w.put("a", 1)
				time.Sleep(eventAfter - time.Second)
				if n := told(); n != 0 {
					t.Errorf("told %d times at once", n)
				}
				time.Sleep(5 * time.Minute)
				if n := told(); n == 0 || n > 15 {
					t.Errorf("told %d times in five minutes", n)
				}
			})
		})
	}
}

// What can be told of a key does not wait until what is refused is tried again.
func TestReportsDoNotWaitForWhatIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.debounce = time.Second
		w.start()
		refused := w.refusePods("other")
		w.put("a", 3)
		time.Sleep(5 * time.Minute)
		for before := refused.Load(); refused.Load() == before; { // the next try is in most of a minute
			time.Sleep(time.Second)
		}
		before := refused.Load()
		w.putPods("a", "other")
		time.Sleep(5 * time.Second)
		set, err := w.get("a")
		if err != nil || set.Status.Replicas != 1 {
			t.Errorf("%+v, %v", set.Status, err)
		}
		if n := refused.Load() - before; n > 3 {
			t.Errorf("%d more tries", n)
		}
	})
}

// A report that has more to say after a while, such as that a deadline is over, is made then: the backoff of a plan that is refused may
// be longer.
func TestTheTimeOfAReportDoesNotWaitForTheBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.due = 3 * time.Second
		w.start()
		w.refusePods()
		for size := range int32(20) { // each is an event, and one more failure
			w.put("a", size+1)
			w.settle()
		}
		w.requests()
		time.Sleep(w.due + time.Second)
		synctest.Wait()
		if len(w.requests()) == 0 {
			t.Errorf("no report was made for %v", w.due)
		}
	})
}
