package clusterroleaggregation

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// itself reports whether a change of a ClusterRole is one that its own rules depend on: its aggregation rule, or
// rules that somebody has written. A role that has lost its aggregation rule is reconciled once more, so that nothing
// more is known of it. Before is nil for a new role, after for one that is gone.
func itself(before, after *rbacv1.ClusterRole) bool {
	switch {
	case before == nil:
		return after.AggregationRule != nil
	case after == nil:
		return before.AggregationRule != nil
	case after.AggregationRule == nil:
		return before.AggregationRule != nil
	}
	resync := before.ResourceVersion == after.ResourceVersion
	return resync || !sameAggregation(before, after) || !equality.Semantic.DeepEqual(before.Rules, after.Rules)
}

// concerned returns the keys of all roles that aggregate others if a change of one role may change the rules of one
// of them: then it may change those of roles that select that one, too (SM-1, SM-11). There are about three, so it
// does not matter which.
func concerned(all []*rbacv1.ClusterRole, before, after *rbacv1.ClusterRole) (keys []plan.Key) {
	contributes := before == nil || after == nil || !sameAggregation(before, after) ||
		!equality.Semantic.DeepEqual(before.Rules, after.Rules)
	if !slices.ContainsFunc(all, func(role *rbacv1.ClusterRole) bool {
		was, is := selects(role, before), selects(role, after)
		return was != is || is && contributes
	}) {
		return nil
	}
	for _, role := range all {
		keys = append(keys, plan.KeyOf(role))
	}
	return keys
}

// sameAggregation reports whether two versions of a ClusterRole aggregate by the same selectors.
func sameAggregation(a, b *rbacv1.ClusterRole) bool {
	return equality.Semantic.DeepEqual(a.AggregationRule, b.AggregationRule)
}

// selects reports whether a role with an aggregation rule selects another one. An invalid selector selects nothing
// (SM-3).
func selects(role, other *rbacv1.ClusterRole) bool {
	if other == nil || role.Name == other.Name {
		return false
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		if matches(&role.AggregationRule.ClusterRoleSelectors[i], other.Labels) {
			return true
		}
	}
	return false
}

// matches reports whether labels match a selector. Most selectors name labels and nothing else, and then there is
// nothing to parse.
func matches(selector *metav1.LabelSelector, l labels.Set) bool {
	if len(selector.MatchExpressions) > 0 {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && parsed.Matches(l)
	}
	for label, value := range selector.MatchLabels {
		if got, ok := l[label]; !ok || got != value {
			return false
		}
	}
	return true
}
