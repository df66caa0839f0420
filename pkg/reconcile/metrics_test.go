package reconcile

import (
	"errors"
	"slices"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

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
		w.FreezeWatches(podKind)
		w.put("a", 3)
		w.settle()
		w.put("a", 4)
		w.settle()
		w.ResumeWatches(podKind)
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

// Each plan is told, with its owner, its steps and what became of them; in a process that only observes, nothing has.
func TestHooksTellDecisions(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			w.shared.ReadOnly = readOnly
			w.start()
			w.put("a", 2)
			w.settle()
			if len(w.decided) == 0 {
				t.Fatal("no plan was told")
			}
			first := w.decided[0]
			if first.Key != (plan.Key{Namespace: "ns", Name: "a"}) || first.Owner == nil || first.Owner.GetUID() == "" ||
				first.Record.Inferred != readOnly || len(first.Steps) == 0 || (len(first.Did) == 0) != readOnly {
				t.Errorf("read only %t: %+v", readOnly, first)
			}
			last := w.decided[len(w.decided)-1]
			if settled := len(last.Steps) == 0 && len(last.Did) == 0; settled == readOnly {
				t.Errorf("read only %t: %+v", readOnly, last)
			}
		})
	}
}

// Several may get decisions: each gets all.
func TestSeveralGetDecisions(t *testing.T) {
	var got []string
	tell := func(who string) func(Decision) { return func(d Decision) { got = append(got, who+" "+d.Key.Name) } }
	hooks := Hooks{Retry: func() {}}.AlsoDecided(tell("a")).AlsoDecided(tell("b"))
	hooks.Decided(Decision{Key: plan.Key{Name: "x"}})
	if !slices.Equal(got, []string{"a x", "b x"}) || hooks.Retry == nil {
		t.Error(got)
	}
}

func TestResultsAreListed(t *testing.T) {
	for _, c := range []struct {
		rec      explain.Record
		err      error
		panicked bool
	}{{}, {explain.Record{Wrote: 1}, nil, false}, {explain.Record{Waiting: "Pod"}, nil, false}, {explain.Record{}, plan.ErrStale, false},
		{explain.Record{}, errors.New("no"), false}, {explain.Record{}, nil, true}} {
		if r := resultOf(&c.rec, c.err, c.panicked); !slices.Contains(Results(), r) {
			t.Errorf("%q is not listed", r)
		}
	}
}
