package clusterroleaggregation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager owns the rules that are applied (SM-5).
const fieldManager = "clusterrole-aggregation-controller"

// snapshot is a ClusterRole with an aggregation rule, and the roles whose rules it is to have. Observe fills
// it, and planRules reads it. The objects belong to a shared cache.
type snapshot struct {
	Role    *rbacv1.ClusterRole
	Sources []*rbacv1.ClusterRole // whose rules it is to have, in this order

	// OwnsRules says that this controller owns the rules of the role. Observe reads that live, and only of
	// roles that have rules and are to have none.
	OwnsRules bool
}

// planRules applies the rules of the sources if the role has others (SM-4, SM-5). If there are none to apply, rules
// that were applied before go, and those that others have written stay (SM-6).
func planRules(_ time.Time, s snapshot) plan.Plan {
	if s.Role == nil || s.Role.AggregationRule == nil {
		return plan.Plan{Why: "the ClusterRole is gone, or has no aggregation rule"}
	}
	wanted := aggregated(s.Sources)
	if sameRules(s.Role.Rules, wanted) {
		return plan.Plan{Why: fmt.Sprintf("it has the rules of the %d ClusterRoles that it selects", len(s.Sources))}
	}
	if len(wanted) == 0 && !s.OwnsRules {
		return plan.Plan{Why: fmt.Sprintf(
			"no ClusterRole that it selects has rules, and it keeps the %d that others have written",
			len(s.Role.Rules))}
	}
	why := fmt.Sprintf("%d rules, of the %d ClusterRoles that it selects, take the place of %d", len(wanted),
		len(s.Sources), len(s.Role.Rules))
	return plan.Plan{
		Why: "apply the rules: " + why,
		Steps: []plan.Step{plan.Change{
			Old:   s.Role,
			New:   applied(s.Role, wanted),
			Apply: &plan.Apply{FieldManager: fieldManager, Force: true},
			Why:   why,
		}},
	}
}

// applied returns the fields of a role that are applied. If there are no rules, the field is absent, which takes off
// those that were applied before (SM-6). An empty list would still belong to this controller, and whoever then
// applies rules to the role would get a conflict.
func applied(role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) plan.Object {
	version, kind := rbacv1.SchemeGroupVersion.WithKind("ClusterRole").ToAPIVersionAndKind()
	about := metav1.ObjectMeta{Name: role.Name, UID: role.UID}
	if len(rules) == 0 {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind},
			ObjectMeta: about}
	}
	return &rbacv1.ClusterRole{ObjectMeta: about, Rules: rules}
}

// aggregated returns the rules of ClusterRoles in their order, each once (SM-2).
func aggregated(sources []*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	all, known := []rbacv1.PolicyRule{}, map[string]bool{}
	for _, source := range sources {
		for _, rule := range source.Rules {
			if text := textOf(rule); !known[text] && grants(rule) {
				known[text] = true
				all = append(all, rule)
			}
		}
	}
	return all
}

// supplies reports whether a ClusterRole has rules that can be aggregated.
func supplies(source *rbacv1.ClusterRole) bool { return slices.ContainsFunc(source.Rules, grants) }

// grants reports whether a rule grants anything. No server accepts one that does not, so it must not keep the others
// from being applied.
func grants(rule rbacv1.PolicyRule) bool {
	return len(rule.Verbs) > 0 && (len(rule.NonResourceURLs) > 0 || len(rule.APIGroups) > 0 && len(rule.Resources) > 0)
}

// sameRules reports whether two lists have the same rules, in any order (SM-4, SM-12).
func sameRules(a, b []rbacv1.PolicyRule) bool {
	if len(a) != len(b) {
		return false
	}
	return slices.Equal(textsOf(a), textsOf(b))
}

// textsOf returns the texts of rules, sorted.
func textsOf(rules []rbacv1.PolicyRule) []string {
	texts := make([]string, len(rules))
	for i, rule := range rules {
		texts[i] = textOf(rule)
	}
	slices.Sort(texts)
	return texts
}

// textOf returns the same text for rules that are equal, where no list is equal to an empty one, and for no others.
func textOf(rule rbacv1.PolicyRule) string {
	var text strings.Builder
	for _, list := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames,
		rule.NonResourceURLs} {
		for _, item := range list {
			text.WriteString(strconv.Itoa(len(item)))
			text.WriteByte(' ')
			text.WriteString(item)
		}
		text.WriteByte(';')
	}
	return text.String()
}

// lookup returns all ClusterRoles that may match a selector.
type lookup func(*metav1.LabelSelector) []*rbacv1.ClusterRole

// sources returns the ClusterRoles whose rules a role is to have, in the order in which they are taken: of the roles
// that it selects, those of the first selector by name, then those of the next (SM-2). A selected role that
// aggregates others stands for its own sources: what it is to have counts, not what it has now. So a change reaches
// all roles of a chain at once, and roles in a cycle cannot pass rules back and forth that come from nowhere (SM-7).
// One that selects no other role keeps the rules that others have written (SM-6), so it is a source itself.
func sources(role *rbacv1.ClusterRole, candidates lookup) (found []*rbacv1.ClusterRole, err error) {
	known := map[string]bool{role.Name: true}
	var visit func([]*rbacv1.ClusterRole)
	visit = func(roles []*rbacv1.ClusterRole) {
		for _, one := range roles {
			if known[one.Name] {
				continue
			}
			known[one.Name] = true
			if others := standsFor(one, candidates); len(others) > 0 {
				visit(others)
				continue
			}
			found = append(found, one)
		}
	}
	roles, err := selected(role, candidates)
	visit(roles)
	return found, err
}

// standsFor returns the ClusterRoles whose rules count in place of the role's own where it is selected: those that it
// selects. There are none if it aggregates none, or has an invalid selector and so keeps its rules (SM-3).
func standsFor(role *rbacv1.ClusterRole, candidates lookup) []*rbacv1.ClusterRole {
	if role.AggregationRule == nil {
		return nil
	}
	others, err := selected(role, candidates)
	if err != nil {
		return nil
	}
	return others
}

// selected returns the ClusterRoles that a role with an aggregation rule selects, without itself: those of the first
// selector by name, then those of the next. One that several selectors match is there several times.
func selected(role *rbacv1.ClusterRole, candidates lookup) (found []*rbacv1.ClusterRole, err error) {
	selectors, err := selectorsOf(role)
	if err != nil {
		return nil, err
	}
	for i, selector := range selectors {
		for _, one := range matching(selector, candidates(&role.AggregationRule.ClusterRoleSelectors[i])) {
			if one.Name != role.Name {
				found = append(found, one)
			}
		}
	}
	return found, nil
}

// selectorsOf returns the selectors of a role that has an aggregation rule.
func selectorsOf(role *rbacv1.ClusterRole) ([]labels.Selector, error) {
	all := make([]labels.Selector, len(role.AggregationRule.ClusterRoleSelectors))
	for i := range all {
		var err error
		if all[i], err = metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i]); err != nil {
			return nil, fmt.Errorf("clusterRoleSelectors[%d]: %w", i, err)
		}
	}
	return all, nil
}

// matching returns the roles that match a selector, by name.
func matching(selector labels.Selector, roles []*rbacv1.ClusterRole) (found []*rbacv1.ClusterRole) {
	for _, role := range roles {
		if selector.Matches(labels.Set(role.Labels)) {
			found = append(found, role)
		}
	}
	slices.SortFunc(found, func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	return found
}
