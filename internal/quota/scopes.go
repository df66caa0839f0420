package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The kinds of objects that know scopes (RQ-34).
const (
	podTrait   = "pod"
	claimTrait = "claim"
)

// Traits are what scopes select objects by.
type Traits struct {
	Kind                                            string // empty for objects that know no scopes
	Terminating, BestEffort, CrossNamespaceAffinity bool
	PriorityClass                                   string
	VolumeAttributesClasses                         []string
}

// Equal reports whether two objects are the same to all scopes.
func (t Traits) Equal(other Traits) bool {
	return t.Kind == other.Kind && t.Terminating == other.Terminating && t.BestEffort == other.BestEffort &&
		t.CrossNamespaceAffinity == other.CrossNamespaceAffinity && t.PriorityClass == other.PriorityClass &&
		slices.Equal(t.VolumeAttributesClasses, other.VolumeAttributesClasses)
}

// Selector is what the scopes of a quota select. The zero Selector selects everything.
type Selector struct {
	// all are the requirements, each of which has to be met.
	all []requirement
	// key is the same for selectors that select the same.
	key string
}

// requirement is one condition of the scopes of a quota.
type requirement struct {
	scope    corev1.ResourceQuotaScope
	operator corev1.ScopeSelectorOperator
	values   []string
}

// NewSelector returns what the scopes of a quota select (RQ-33). It fails for an operator that no server accepts.
func NewSelector(spec *corev1.ResourceQuotaSpec) (s Selector, err error) {
	for _, scope := range spec.Scopes {
		s.all = append(s.all, requirement{scope: scope, operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		for _, a := range spec.ScopeSelector.MatchExpressions {
			s.all = append(s.all, requirement{a.ScopeName, a.Operator, a.Values})
		}
	}
	var key strings.Builder
	for _, r := range s.all {
		switch r.operator {
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist, corev1.ScopeSelectorOpIn,
			corev1.ScopeSelectorOpNotIn:
		default:
			return Selector{}, fmt.Errorf("scope %s has the unknown operator %q", r.scope, r.operator)
		}
		fmt.Fprintf(&key, "%s %s %q;", r.scope, r.operator, slices.Sorted(slices.Values(r.values)))
	}
	s.key = key.String()
	return s, nil
}

// Key is the same for selectors that select the same.
func (s Selector) Key() string { return s.key }

// Matches reports whether an object with these traits is selected.
func (s Selector) Matches(t Traits) bool {
	for _, r := range s.all {
		if !r.matches(t) {
			return false
		}
	}
	return true
}

// exists says for scopes without values which objects are in them.
func exists(scope corev1.ResourceQuotaScope, t Traits) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating:
		return t.Terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !t.Terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return t.BestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !t.BestEffort
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return t.CrossNamespaceAffinity
	}
	return false
}

// matches reports whether an object meets the condition, by what is known of it.
func (r requirement) matches(t Traits) bool {
	switch {
	case r.scope == corev1.ResourceQuotaScopeVolumeAttributesClass:
		return t.Kind == claimTrait && r.matchesAny(t.VolumeAttributesClasses)
	case t.Kind != podTrait:
		return false
	case r.scope == corev1.ResourceQuotaScopePriorityClass:
		var names []string
		if t.PriorityClass != "" {
			names = []string{t.PriorityClass}
		}
		return r.matchesAny(names)
	}
	return r.operator == corev1.ScopeSelectorOpExists && exists(r.scope, t)
}

// matchesAny applies label semantics to each name. No name is a label that is absent (RQ-27, RQ-30).
func (r requirement) matchesAny(names []string) bool {
	switch r.operator {
	case corev1.ScopeSelectorOpExists:
		return len(names) > 0
	case corev1.ScopeSelectorOpDoesNotExist:
		return len(names) == 0
	}
	if len(names) == 0 {
		return r.operator == corev1.ScopeSelectorOpNotIn
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(r.values, name) == (r.operator == corev1.ScopeSelectorOpIn)
	})
}
