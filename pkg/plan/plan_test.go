package plan

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestEmpty(t *testing.T) {
	if !(Plan{Why: "nothing to do", Requeue: 1}).Empty() {
		t.Error("a plan without steps is not empty")
	}
	if (Plan{Steps: []Step{Delete{}}}).Empty() {
		t.Error("a plan with a step is empty")
	}
}

func TestOutcome(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	did := Outcome{Results: []Result{
		{Verb: Changed}, {Verb: Created}, {Verb: Created, Err: first}, {Verb: Created, Err: second},
	}}
	if got := did.Failed(Created); !errors.Is(got, first) {
		t.Errorf("creations failed with %v", got)
	}
	if got := did.Failed(Changed); got != nil {
		t.Errorf("changes failed with %v", got)
	}
	if got := did.Failed(Deleted); got != nil {
		t.Errorf("deletions failed with %v", got)
	}
	if !did.Wrote() || (Outcome{Err: first}).Wrote() {
		t.Error("writes are those that were tried")
	}
}

// Waits grow from the shortest to the longest, and no number of waits is too many.
func TestDoubling(t *testing.T) {
	for before, want := range map[int]time.Duration{-1: 3, 0: 3, 1: 6, 2: 12, 4: 48, 5: 50, 62: 50, 63: 50, math.MaxInt: 50} {
		if got := Doubling(3, 50, before); got != want {
			t.Errorf("after %d waits: %d, want %d", before, got, want)
		}
	}
	if got := Doubling(2, 1, 0); got != 1 {
		t.Errorf("the longest is shorter than the shortest: %d", got)
	}
}
