package selectors

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rejects reports whether labels lack something that a selector asks for. That costs much less than to parse the
// selector, which a handler must not do with all selectors of a namespace. What is not rejected is to be asked for in
// full: the selector may be none that a server accepts.
func Rejects(s *metav1.LabelSelector, labels map[string]string) bool {
	if s == nil || len(s.MatchLabels) > len(labels) {
		return true
	}
	for key, value := range s.MatchLabels {
		if has, ok := labels[key]; !ok || has != value {
			return true
		}
	}
	return slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		value, has := labels[e.Key]
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			return !has || !slices.Contains(e.Values, value)
		case metav1.LabelSelectorOpNotIn:
			return has && slices.Contains(e.Values, value)
		case metav1.LabelSelectorOpExists:
			return !has
		case metav1.LabelSelectorOpDoesNotExist:
			return has
		}
		return true // no server accepts it
	})
}
