package garbagecollector

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// What is held goes by proof, by time or by an operator, and by nothing else.
func TestDecideAbsence(t *testing.T) {
	held := func(answer apiAnswer) absenceSnapshot {
		return absenceSnapshot{Kind: widgetKind.GroupKind(), Waiting: 7, Answer: answer, Unwell: "it is down", EmptySince: now}
	}
	for _, c := range []struct {
		name  string
		after time.Duration
		s     absenceSnapshot
		want  absenceDecision
		why   string
	}{
		{"nothing waits", 0, absenceSnapshot{Answer: unwell}, absenceDecision{Verdict: verdictNothingLeft}, ""},
		{"an operator", 0, absenceSnapshot{Waiting: 1, Released: true}, absenceDecision{Verdict: verdictReleased}, ""},
		{"the API server serves it", 0, held(believed), absenceDecision{Verdict: verdictProved}, ""},
		{"there are others", 0, held(filled), absenceDecision{Verdict: verdictProved, ReadAgain: true}, ""},
		{"none for an hour", emptyFor, held(empty), absenceDecision{Verdict: verdictInTime, ReadAgain: true}, ""},
		{"none, since a moment", emptyFor - 1, held(empty), absenceDecision{}, "this is believed at 2026-11-01T13:00:00Z"},
		{"nobody serves it", 0, held(unregistered), absenceDecision{ReadAgain: true}, "is registered no longer"},
		{"unwell for an hour", emptyFor, held(unwell), absenceDecision{}, "it is down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, p := planAbsence(now.Add(c.after), c.s)
			if again := p.Requeue == proveAgain; again != (c.want.Verdict == verdictHeld) || !p.Empty() {
				t.Errorf("planned: %+v", p)
			}
			if !strings.Contains(got.Why, c.why) {
				t.Errorf("why: %s", got.Why)
			}
			if got.Why = ""; got != c.want {
				t.Errorf("decided %+v, want %+v", got, c.want)
			}
		})
	}
}

// An API that has had no objects for long may have had some in between if nobody has asked.
func TestAbsenceIsRememberedWhileItIsAsked(t *testing.T) {
	m := remember(now, nil, empty)
	for range 6 {
		m = remember(m.LastAsked.Add(budgetWindow), &m, empty)
	}
	if m.EmptySince != now {
		t.Errorf("empty since %s", m.EmptySince)
	}
	for name, later := range map[string]absenceMemory{
		"long not asked": remember(m.LastAsked.Add(budgetWindow+1), &m, empty), "unwell": remember(m.LastAsked, &m, unwell),
	} {
		if later.EmptySince != later.LastAsked {
			t.Errorf("%s: empty since %s", name, later.EmptySince)
		}
	}
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := absenceSnapshot{
			Kind: widgetKind.GroupKind(), Waiting: rapid.IntRange(0, 2).Draw(t, "waiting"), Released: rapid.Bool().Draw(t, "released"),
			Answer: apiAnswer(rapid.IntRange(int(unwell), int(unregistered)).Draw(t, "answer")), Unwell: "it is down",
			EmptySince: now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "minutes")) * time.Minute),
		}
		got, again := planAbsence(now, plantest.Restored(t, s))
		if want, p := planAbsence(now, s); got != want || again.Why != p.Why || again.Requeue != p.Requeue {
			t.Errorf("decided %+v, want %+v", got, want)
		}
	})
}
