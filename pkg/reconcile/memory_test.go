package reconcile

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// counting remembers how many observations of the key were committed.
func counting(_ toy, r Request[int]) *int {
	n := 1
	if r.Memory != nil {
		n = *r.Memory + 1
	}
	return &n
}

// memories returns what the Observe of the key was told to remember, in order; 0 for nothing.
func (w *world) memories(key string) (all []int) {
	for _, r := range w.requests() {
		switch {
		case r.Key.Name != key:
		case r.Memory == nil:
			all = append(all, 0)
		default:
			all = append(all, *r.Memory)
		}
	}
	return all
}

// touch has the key reconciled, without need for a write.
func (w *world) touch(name string) {
	w.t.Helper()
	set, err := w.get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(name, *set.Spec.Replicas)
	w.settle()
}

func (w *world) wantMemories(what, key string, want ...int) {
	w.t.Helper()
	if got := w.memories(key); !slices.Equal(got, want) {
		w.t.Errorf("%s: told %v, want %v", what, got, want)
	}
}

// What Observe returns to be remembered is what the key's next Observe is told. Each key has a memory of its own.
func TestMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var forgets atomic.Bool
		w.decide = nothing
		w.remember = func(s toy, r Request[int]) *int {
			if forgets.Load() {
				return nil
			}
			return counting(s, r)
		}
		w.start()
		w.put("a", 0)
		w.settle()
		w.touch("a")
		w.touch("a")
		w.wantMemories("nothing to write", "a", 0, 1, 2)
		w.put("b", 0)
		w.settle()
		w.wantMemories("another key", "b", 0)
		forgets.Store(true)
		w.touch("a")
		w.touch("a")
		w.wantMemories("Observe returns nothing", "a", 3, 0)
		w.runner.mu.Lock()
		left := w.runner.keys.Len()
		w.runner.mu.Unlock()
		if left != 1 { // b
			t.Errorf("%d keys have a state", left)
		}
	})
}

// The memory is what was acted upon: after a failed write the next Observe is told what it was told before. With [Always]
// it is what was seen.
func TestMemoryOfAFailedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		remember     func(time.Time, toy, struct{}, *int, plan.Outcome, plan.Outcome) (*int, bool)
		while, after int // memory told to the repetitions, and to the reconcile after those
	}{
		"acted upon": {nil, 0, 1},
		"seen":       {Always[toy, struct{}, int], 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.remember = counting
				w.adjust = func(ctl *Controller[toy, struct{}, int]) {
					ctl.Remember = c.remember
					ctl.Report = nil
					ctl.Period = time.Minute
				}
				w.start()
				var tries atomic.Int32
				w.BeforeWrite(func(x clienttest.Write) error {
					if x.Kind == "Pod" && tries.Add(1) == 1 {
						return exceeded(x.Key.Name)
					}
					return nil
				})
				w.put("a", 1)
				w.settle()
				w.wantMemories("the first time", "a", 0)
				time.Sleep(time.Minute)
				w.wantPods(1)
				got := w.memories("a")
				if want := []int{c.while, c.after}; !slices.Equal(got, want) {
					t.Errorf("told %v, want %v", got, want)
				}
			})
		})
	}
}

// Remember is told what became of the plan, and what it returns is committed whatever that was, and whatever becomes of the report.
func TestMemoryThatKnowsTheOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Period = time.Minute
			c.Remember = func(_ time.Time, _ toy, _ struct{}, _ *int, did, _ plan.Outcome) (*int, bool) {
				n := 1
				for _, r := range did.Results {
					if n++; r.Err != nil {
						n += 10
					}
				}
				return &n, true
			}
		}
		w.start()
		var pods, statuses atomic.Int64
		w.BeforeWrite(func(x clienttest.Write) error {
			switch {
			case x.Kind == "Pod":
				if pods.Add(1) == 1 {
					return exceeded(x.Key.Name)
				}
			case pods.Load() == 2:
				if statuses.Add(1) == 1 {
					return exceeded(x.Key.Name)
				}
			}
			return nil
		})
		w.put("a", 1)
		w.settle()
		time.Sleep(3 * time.Minute)
		w.wantPods(1)
		if got := w.memories("a"); len(got) < 3 || got[0] != 0 || got[1] != 12 || got[2] != 2 {
			t.Errorf("told %v", got)
		}
		if statuses.Load() == 0 {
			t.Error("no report was refused")
		}
	})
}

// A report that was refused keeps the memory, too; a report that waits for a newer one does not.
func TestMemoryAndReports(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.remember = counting
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Period = time.Minute
		}
		w.decide = nothing
		w.start()
		w.put("a", 0)
		w.settle()
		var refused atomic.Bool
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Options.Subresource == plan.Status && !refused.Swap(true) {
				return exceeded(x.Key.Name)
			}
			return nil
		})
		w.requests()
		w.putPods("a", "p")
		w.settle()
		w.wantMemories("the report is refused", "a", 1)
		time.Sleep(time.Minute)
		if got := w.memories("a"); len(got) < 2 || got[0] != 1 || got[1] != 2 {
			t.Errorf("the report is written: told %v", got)
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		w.remember = counting
		w.debounce = time.Second
		w.decide = nothing
		w.start()
		w.put("a", 0)
		w.settle()
		w.requests()
		w.putPods("a", "p")
		time.Sleep(quietTime / 2)
		w.wantMemories("the report waits", "a", 1)
		w.settle()
		if got := w.memories("a"); len(got) == 0 || got[0] != 2 {
			t.Errorf("the report is written: told %v", got)
		}
	})
}

func TestMemoryOfAKeyThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = nothing
		w.remember = counting
		w.start()
		w.put("a", 0)
		w.settle()
		w.remove("a")
		w.settle()
		w.put("a", 0)
		w.settle()
		w.wantMemories("gone and come back", "a", 0, 1, 0)
		w.remove("a")
		w.settle()
		if n := w.runner.keys.Len(); n != 0 {
			t.Errorf("%d keys have a state", n)
		}
	})
}

// A process that leads again knows no more than one that leads for the first time.
func TestMemoryOfAnEarlierTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = nothing
		w.remember = counting
		stopCaches := w.keepCaches()
		defer stopCaches()
		w.put("a", 0)
		w.settle()
		w.touch("a")
		w.wantMemories("the first term", "a", 0, 1)
		w.stop()
		w.nextTerm()
		w.settle()
		w.touch("a")
		w.wantMemories("the second term", "a", 0, 1)
	})
}

// After a write that was not answered Observe runs twice in a reconcile: before and after the caches were compared with the
// server. It is told the same both times, and what it returned the second time is remembered.
func TestMemoryWhenObserveRunsTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.remember = counting
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Report = nil
			c.Watches[0].Record = true
			c.Period = time.Minute
		}
		w.start()
		w.put("a", 0)
		w.settle()
		w.touch("a") // it is verified by now, and something is remembered of it
		var lost atomic.Bool
		w.BeforeWrite(func(x clienttest.Write) error {
			if x.Kind == "Pod" && !lost.Swap(true) {
				return errors.New("connection reset by peer")
			}
			return nil
		})
		w.requests()
		w.put("a", 1)
		w.settle()
		w.wantMemories("before", "a", 2)
		time.Sleep(time.Minute - 300*time.Millisecond)
		w.settle()
		w.wantPods(1)
		asked := w.requests()
		if len(asked) != 3 {
			t.Fatalf("%d observations: %+v", len(asked), asked)
		}
		for i, r := range asked[:2] {
			if r.Memory == nil || *r.Memory != 2 || changesOf(r) != "~a" {
				t.Errorf("observation %d is told %+v", i, r)
			}
		}
		if r := asked[2]; r.Memory == nil || *r.Memory != 3 || len(r.Changes) != 0 {
			t.Errorf("the next reconcile is told %+v", r)
		}
	})
}

// Another object of the name, whose predecessor nobody has seen go, is observed without what is remembered of that.
func TestMemoryIsOfOneObject(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide, w.remember = nothing, counting
		w.start()
		w.put("a", 0)
		w.settle()
		w.touch("a")
		w.wantMemories("one object", "a", 0, 1)
		another, err := w.get("a")
		if err != nil {
			t.Fatal(err)
		}
		another.UID = "another"
		if _, err := w.Put(another); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.touch("a")
		w.wantMemories("another object", "a", 2, 0, 1)
	})
}
