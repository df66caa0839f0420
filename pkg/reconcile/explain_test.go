package reconcile

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whoever asks about a key learns what is seen and planned now, and nothing is written or remembered for it.
func TestDetail(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.remember = func(s toy, _ Request[int]) *int { n := len(s.pods); return &n }
		w.start()
		w.put("a", 2)
		w.settle()
		w.wantPods(2)
		writes := w.CountWrites("")
		known := w.requests()
		for _, asked := range []struct{ key, want string }{
			{"a", ""}, {"b", "there is no such object"},
		} {
			d, err := w.runner.Records()[0].Detail(t.Context(), plan.Key{Namespace: "ns", Name: asked.key})
			if asked.want != "" {
				if err == nil || err.Error() != asked.want {
					t.Errorf("%s: %v", asked.key, err)
				}
				continue
			}
			if err != nil || len(d.Versions) != 3 || d.Versions[0].Kind != "ReplicaSet" || len(d.Plan.Steps) != 0 || d.Report == nil {
				t.Errorf("%s: %+v, %v", asked.key, d, err)
			}
		}
		told := w.requests()
		if last := known[len(known)-1]; len(told) != 2 || told[0].Memory == nil || *told[0].Memory != 2 || told[0].Now.Equal(last.Now) ||
			told[1].Memory != nil {
			t.Errorf("%+v", told)
		}
		if w.runner.keys.Len() != 1 || w.CountWrites("") != writes {
			t.Errorf("%d keys, %d writes", w.runner.keys.Len(), w.CountWrites(""))
		}
		w.decide = func(toy) plan.Plan { panic("no sense") }
		if _, err := w.runner.Records()[0].Detail(t.Context(), plan.Key{Namespace: "ns", Name: "a"}); err == nil ||
			err.Error() != "panic: no sense" {
			t.Error(err)
		}
		w.stop()
		if _, err := w.runner.Records()[0].Detail(t.Context(), plan.Key{Namespace: "ns", Name: "a"}); err == nil ||
			!strings.Contains(err.Error(), "does not run") {
			t.Error(err)
		}
	})
}

// Whoever asks for a key by another name is told what the controller says of that, for as long as the key has the name.
func TestAliases(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Aliases = func(s toy, _ struct{}) map[plan.Key]string {
				aliases := map[plan.Key]string{}
				for _, p := range s.pods {
					aliases[plan.KeyOf(p)] = "a pod of " + s.set.Name
				}
				return aliases
			}
		}
		w.start()
		w.put("a", 2)
		w.settle()
		told := func(pod, when, want string) {
			t.Helper()
			if r, _ := w.runner.Records()[0].Get(plan.Key{Namespace: "ns", Name: pod}); r.Why != want {
				t.Errorf("%s: %+v", when, r)
			}
		}
		pod := w.Names(podKind)[0]
		told(pod, "at first", "a pod of a")
		w.put("a", 0)
		w.settle()
		told(pod, "the pod is gone", "")
		w.put("a", 1)
		w.settle()
		pod = w.Names(podKind)[0]
		told(pod, "another pod", "a pod of a")
		w.remove("a")
		w.settle()
		told(pod, "the key is gone", "")
		if w.runner.keys.Len() != 0 {
			t.Errorf("%d keys are remembered", w.runner.keys.Len())
		}
	})
}

// What would be written is shown while it cannot be written.
func TestDetailOfAKeyThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lag = func(context.Context) error { return errors.New("no") }
		w.start()
		w.put("a", 2)
		time.Sleep(time.Minute)
		d, err := w.runner.Records()[0].Detail(t.Context(), plan.Key{Namespace: "ns", Name: "a"})
		if err != nil || len(d.Plan.Steps) != 1 || !strings.HasPrefix(d.Plan.Steps[0].Does, "create 2 copies of Pod ns/a-") ||
			d.Report != nil {
			t.Errorf("%+v, %v", d, err)
		}
		told := w.requests()
		if last := told[len(told)-1]; last.Failure == nil {
			t.Errorf("%+v", last)
		}
		rec, _ := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"})
		if rec.Alike == 0 || len(rec.Outcome) != 1 || rec.Outcome[0].Verb != plan.Created || rec.Outcome[0].Error == "" ||
			len(rec.Steps) == 0 || rec.Version == "" {
			t.Errorf("%+v", rec)
		}
	})
}

// An object that turns out to be gone when the key is verified leaves no record.
func TestNoRecordOfAnObjectThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var gone atomic.Bool
		w.beforeList = func() {
			if gone.CompareAndSwap(false, true) {
				w.remove("a")
				time.Sleep(time.Second) // until the caches show it
			}
		}
		w.put("a", 2)
		w.start()
		time.Sleep(time.Minute)
		if rec, ok := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"}); ok || !gone.Load() {
			t.Errorf("%+v", rec)
		}
	})
}

// Two runners of one name, such as those of two shards, have records of their own.
func TestRecordsBelongToTheRunner(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 1)
		w.settle()
		other := New(w.shared, Access{}, Controller[toy, struct{}, int]{Name: "toy"})
		other.begin()
		defer other.queue.ShutDown()
		if _, ok := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"}); !ok {
			t.Error("the second runner has taken the records of the first")
		}
		if _, ok := other.explained.Get(plan.Key{Namespace: "ns", Name: "a"}); ok {
			t.Error("the second runner has the records of the first")
		}
	})
}
