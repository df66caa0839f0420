package garbagecollector

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// proveAgain is when the server is asked again that could not prove anything.
	proveAgain = 10 * time.Second
	// emptyFor is how long an aggregated API has to have no objects at all before that is believed.
	emptyFor = time.Hour
)

// absenceSnapshot is what is known of a kind of owners that live reads have not found, and what its API has just
// answered.
type absenceSnapshot struct {
	Kind       schema.GroupKind
	Waiting    int  // dependents that are held until there is proof
	Released   bool // an operator has released the brake
	Answer     apiAnswer
	Unwell     string    // why the API is unwell
	EmptySince time.Time // since when it has answered that it has no objects
}

// absenceMemory is what is remembered of such a kind.
type absenceMemory struct {
	EmptySince time.Time // since when its API has answered that it has no objects
	LastAsked  time.Time // when it last has
}

// apiAnswer is what an API says of itself.
type apiAnswer int

const (
	unwell       apiAnswer = iota // it does not answer, or says that it cannot
	believed                      // the API server itself serves it, or nobody may ask who does
	filled                        // it is aggregated, and has objects
	empty                         // it is aggregated, and has none
	unregistered                  // nobody serves it
)

// remember returns what is remembered after another answer. An API that was not asked for long may have had objects
// meanwhile.
func remember(now time.Time, m *absenceMemory, answer apiAnswer) absenceMemory {
	if m == nil || answer != empty || now.Sub(m.LastAsked) > budgetWindow {
		return absenceMemory{now, now}
	}
	return absenceMemory{m.EmptySince, now}
}

// verdict says what becomes of the dependents that are held.
type verdict int

const (
	verdictHeld verdict = iota
	verdictNothingLeft
	verdictReleased // by an operator
	verdictProved   // their owners are gone
	verdictInTime   // likewise, because nothing has changed for long
)

// absenceDecision is what is decided about the dependents of a kind of owners.
type absenceDecision struct {
	Verdict   verdict
	ReadAgain bool   // the owners, as earlier reads may have been answered before the API was well
	Why       string // they are still held
}

// planAbsence decides whether owners of a kind are believed to be gone. It writes nothing: what is held is decided
// about again.
func planAbsence(now time.Time, s absenceSnapshot) (absenceDecision, plan.Plan) {
	d := decideAbsence(now, s)
	if d.Verdict != verdictHeld {
		return d, plan.Plan{}
	}
	return d, plan.Plan{Requeue: proveAgain, Why: fmt.Sprintf("holds %d dependents: %s", s.Waiting, d.Why)}
}

func decideAbsence(now time.Time, s absenceSnapshot) absenceDecision {
	switch {
	case s.Waiting == 0:
		return absenceDecision{Verdict: verdictNothingLeft}
	case s.Released:
		return absenceDecision{Verdict: verdictReleased}
	case s.Answer == believed:
		return absenceDecision{Verdict: verdictProved}
	case s.Answer == filled:
		return absenceDecision{Verdict: verdictProved, ReadAgain: true}
	case s.Answer == empty && now.Sub(s.EmptySince) >= emptyFor:
		return absenceDecision{Verdict: verdictInTime, ReadAgain: true}
	case s.Answer == unregistered: // they can no longer be looked up
		return absenceDecision{ReadAgain: true, Why: "the API group is registered no longer"}
	case s.Answer == empty:
		until := s.EmptySince.Add(emptyFor).UTC().Format(time.RFC3339)
		return absenceDecision{Why: "its API server is not Kubernetes' own and has no object at all, " +
			"not even in a list; this is believed at " + until + " if nothing changes"}
	}
	return absenceDecision{Why: s.Unwell}
}
