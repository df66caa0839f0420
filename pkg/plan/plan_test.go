package plan

import (
	"errors"
	"testing"
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
