package exam

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Result is what became of a problem.
type Result struct {
	*Problem
	Said         string // the cause that was named, or why there is none
	Wrong        error  // nil if the answer is right
	WrongCertain bool   // a wrong cause was said to be certain
	Described    bool   // the events and conditions of the object that was asked about name the component
}

// Judge compares the answers to one question with what is right.
func Judge(p *Problem, namespace string, answers []*Answer) Result {
	r := Result{Problem: p, Said: "nothing"}
	var problems []error
	for i, a := range answers {
		if a.Cause != nil {
			r.Said = a.Cause.Object.String()
			r.WrongCertain = r.WrongCertain || a.Cause.Certain && !p.accepts(a.Cause.Object, namespace)
		}
		if !a.same(answers[0]) {
			problems = append(problems, fmt.Errorf("answer %d differs from the first: %q, %q", i+1, a.Summary, answers[0].Summary))
		}
		if err := p.judge(a, namespace); err != nil {
			problems = append(problems, fmt.Errorf("answer %d: %w", i+1, err))
		}
	}
	if len(answers) == 0 {
		problems = append(problems, errors.New("there is no answer"))
	}
	r.Wrong = errors.Join(problems...)
	return r
}

// judge returns what is wrong with one answer.
func (p *Problem) judge(a *Answer, namespace string) error {
	switch {
	case a.APIVersion != version || a.Kind != "Answer":
		return fmt.Errorf("it is of %s %s", a.APIVersion, a.Kind)
	case a.Summary == "" || strings.Contains(strings.TrimSpace(a.Summary), "\n"):
		return fmt.Errorf("the summary is not one line: %q", a.Summary)
	case len(p.Cause) == 0 && a.Cause == nil:
		return nil
	case len(p.Cause) == 0:
		return fmt.Errorf("nothing is wrong, and it names %s: %s", a.Cause.Object, a.Summary)
	case a.Cause == nil:
		return fmt.Errorf("it names no cause: %s", a.Summary)
	case !p.accepts(a.Cause.Object, namespace):
		return fmt.Errorf("it names %s, certain: %v: %s", a.Cause.Object, a.Cause.Certain, a.Summary)
	case !p.mentioned(a.Summary):
		return fmt.Errorf("the summary does not have %q: %s", p.Mention, a.Summary)
	}
	return nil
}

// accepts reports whether an object is a right cause.
func (p *Problem) accepts(o Object, namespace string) bool {
	return slices.ContainsFunc(p.Cause, func(c Component) bool {
		return c.Kind == o.Kind && matches(c.Name, o.Name) && (o.Namespace == "" || o.Namespace == orElse(c.Namespace, namespace))
	})
}

// mentioned reports whether a text has all that it must have.
func (p *Problem) mentioned(text string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(p.Mention, func(words string) bool {
		return !slices.ContainsFunc(strings.Split(words, "|"), func(word string) bool {
			return strings.Contains(text, strings.ToLower(word))
		})
	})
}

// describedBy reports whether a text about the object that was asked about names the component.
func (p *Problem) describedBy(text string, asked Object) bool {
	if text == "" || !p.mentioned(text) {
		return false
	}
	return slices.ContainsFunc(p.Cause, func(c Component) bool {
		return c.Kind == asked.Kind && matches(c.Name, asked.Name) || strings.Contains(text, strings.TrimSuffix(c.Name, "*"))
	})
}

// Goal is the share of the problems that must be answered rightly.
const Goal = 0.95

// Count counts the results that are right, and the wrong causes that were said to be certain.
func Count(all []Result) (right, wrongCertain, described int) {
	for _, r := range all {
		if r.Wrong == nil {
			right++
		}
		if r.WrongCertain {
			wrongCertain++
		}
		if r.Described {
			described++
		}
	}
	return right, wrongCertain, described
}
