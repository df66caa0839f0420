package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A process that only observes records what it would do, and what it would report once others have done that. It writes nothing,
// records no event, and looks again when nobody has.
func TestReadOnlyRecordsPlans(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.shared.ReadOnly = true
		w.remember = func(s toy, _ Request[int]) *int { n := len(s.pods); return &n }
		planned := 0
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Planned = func(toy, struct{}) error { planned++; return nil }
		}
		w.start()
		w.put("a", 2)
		w.settle()
		w.wantPlanned("a", "create 2 copies of Pod ns/a-*")
		if planned > 0 {
			t.Error("what a plan takes is taken by nobody")
		}
		w.requests()
		time.Sleep(stillPlannedAfter)
		if asked := w.requests(); len(asked) != 1 || asked[0].Memory != nil {
			t.Errorf("while nobody has done it, it is planned again after a while, and not remembered as done: %+v", asked)
		}
		w.wantPlanned("a", "create 2 copies of Pod ns/a-*")

		w.putPods("a", "one", "two")
		w.settle()
		w.wantPlanned("a", "change the status of ReplicaSet ns/a")
		if planned == 0 {
			t.Error("a plan without steps is known to the term")
		}
		set, err := w.get("a")
		if err != nil {
			t.Fatal(err)
		}
		set.Status.Replicas = 2
		if _, err := w.Server.Put(set); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.wantPlanned("a")
		w.requests()
		w.put("a", 1)
		w.settle()
		w.wantPlanned("a", "delete Pod ns/one")
		if asked := w.requests(); len(asked) == 0 || asked[0].Memory == nil || *asked[0].Memory != 2 {
			t.Errorf("what asks for nothing more is remembered: %+v", asked)
		}
		if wrote := w.CountWrites("delete"); wrote > 0 || len(w.events.Events) > 0 {
			t.Errorf("something was written, or an event recorded: %v", w.Log())
		}
		w.wantPods(2)
	})
}

// A plan that asks to be made again at once, and one that only records an event, do not keep an observer busy, and a key that is
// gone leaves nothing behind.
func TestReadOnlyIsUnhurried(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.shared.ReadOnly = true
		w.remember = func(s toy, _ Request[int]) *int { n := len(s.pods); return &n }
		w.decide = func(s toy) plan.Plan {
			p := keepPods(s)
			p.Requeue = time.Millisecond
			if *s.set.Spec.Replicas == 0 {
				p.Steps = []plan.Step{plan.Each{Sequences: [][]plan.Step{{plan.RecordEvent{Object: s.set, Event: plan.Event{Reason: "Empty"}}}}}}
				p.Requeue = 0
			}
			return p
		}
		w.start()
		w.put("a", 2)
		w.settle()
		w.requests()
		time.Sleep(10 * time.Minute)
		if asked := w.requests(); len(asked) < 9 || len(asked) > 11 {
			t.Errorf("a plan that nobody carries out is made %d times in ten minutes", len(asked))
		}
		w.put("a", 0)
		w.settle()
		w.wantPlanned("a")
		w.requests()
		w.put("a", 0)
		w.settle()
		if asked := w.requests(); len(asked) == 0 || asked[0].Memory == nil {
			t.Errorf("an event counts as recorded: %+v", asked)
		}
		w.remove("a")
		w.settle()
		if n := w.runner.keys.Len(); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

// wantPlanned checks the steps that are recorded of a ReplicaSet as planned and not carried out.
func (w *world) wantPlanned(name string, want ...string) {
	w.t.Helper()
	record, ok := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: name})
	if !ok || !record.Inferred || !slices.Equal(record.Steps, want) || len(record.Outcome) > 0 || record.Error != "" ||
		record.Wrote != 0 {
		w.t.Errorf("want %q, got %+v", want, record)
	}
}
