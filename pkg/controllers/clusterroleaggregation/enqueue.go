package clusterroleaggregation

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// itself reports whether a change of a ClusterRole is one that its own rules depend on: its aggregation rule, or rules that somebody has
// written. A role that has lost its aggregation rule is reconciled once more, so that nothing more is known of it. Before is nil for a new
// role, after for one that is gone.
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

// concerned returns the keys of those roles, all of which aggregate others, whose rules a change of one role may change: those that select
// it, those that select these, and so on (SM-1, SM-11).
func concerned(all []*rbacv1.ClusterRole, candidates lookup, before, after *rbacv1.ClusterRole) (keys []plan.Key) {
	contributes := contributesOtherwise(candidates, before, after)
	if !contributes && equality.Semantic.DeepEqual(before.Labels, after.Labels) {
		return nil
	}
	known := map[string]bool{}
	var reached []*rbacv1.ClusterRole
	reach := func(role *rbacv1.ClusterRole) {
		if !known[role.Name] {
			known[role.Name] = true
			reached = append(reached, role)
		}
	}
	for _, role := range all {
		if was, is := selects(role, before), selects(role, after); was != is || is && contributes {
			reach(role)
		}
	}
	for i := 0; i < len(reached); i++ {
		keys = append(keys, plan.KeyOf(reached[i]))
		for _, role := range all {
			if !known[role.Name] && selects(role, reached[i]) {
				reach(role)
			}
		}
	}
	return keys
}

// contributesOtherwise reports whether roles that select a role get other rules from it. Its own rules do not count if it stands for others.
func contributesOtherwise(candidates lookup, before, after *rbacv1.ClusterRole) bool {
	if before == nil || after == nil || !sameAggregation(before, after) {
		return true
	}
	return !equality.Semantic.DeepEqual(before.Rules, after.Rules) && len(standsFor(after, candidates)) == 0
}

func sameAggregation(a, b *rbacv1.ClusterRole) bool {
	return equality.Semantic.DeepEqual(a.AggregationRule, b.AggregationRule)
}

// selects reports whether a role with an aggregation rule selects another one. An invalid selector selects nothing (SM-3).
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

// matches reports whether labels match a selector. Most selectors name labels and nothing else, and then there is nothing to parse.
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
