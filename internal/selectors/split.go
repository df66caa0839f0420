package selectors

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// mostAlternatives bounds the sets of pairs that a selector is split into. Selectors with more are checked label by
// label.
const mostAlternatives = 16

// Selector is a label selector, split into what an index finds and what is left to check.
type Selector struct {
	// Alternatives are sets of labels. What is selected has all labels of exactly one of them.
	Alternatives []map[string]string
	// rest is the whole selector; nil if the alternatives say it all.
	rest labels.Selector
}

// Split splits a selector. Nil selects nothing, and an empty one everything. It fails for a selector that no server
// accepts.
func Split(s *metav1.LabelSelector) (Selector, error) {
	whole, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || s == nil {
		return Selector{}, err
	}
	first := make(map[string]string, min(len(s.MatchLabels), mostKeys))
	seen := map[string]bool{} // the keys of the alternatives
	for _, key := range indexedKeys(s.MatchLabels) {
		first[key], seen[key] = s.MatchLabels[key], true
	}
	found := Selector{Alternatives: []map[string]string{first}}
	if len(first) < len(s.MatchLabels) {
		found.rest = whole
	}
	for _, e := range s.MatchExpressions {
		if e.Operator != metav1.LabelSelectorOpIn || seen[e.Key] || len(seen) == mostKeys ||
			len(e.Values)*len(found.Alternatives) > mostAlternatives {
			found.rest = whole
			continue
		}
		seen[e.Key] = true
		found.Alternatives = multiplied(found.Alternatives, e)
	}
	return found, nil
}

// multiplied returns each of the alternatives with each value of the expression.
func multiplied(alternatives []map[string]string, e metav1.LabelSelectorRequirement) (all []map[string]string) {
	values := map[string]bool{}
	for _, value := range e.Values {
		if values[value] {
			continue
		}
		values[value] = true
		for _, pairs := range alternatives {
			with := make(map[string]string, len(pairs)+1)
			maps.Copy(with, pairs)
			with[e.Key] = value
			all = append(all, with)
		}
	}
	return all
}

// Matches reports whether labels that one of the alternatives has found are selected.
func (s Selector) Matches(l map[string]string) bool {
	return s.rest == nil || s.rest.Matches(labels.Set(l))
}
