package clusterroleaggregation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// ClusterRoles that no server accepts do not keep the rules of others from being applied.
func TestMalformedRoles(t *testing.T) {
	good := rule("pods", "get")
	for name, bad := range map[string]*rbacv1.ClusterRole{
		"nothing":          {},
		"no name":          {Rules: []rbacv1.PolicyRule{{}}},
		"odd labels":       role("bad", map[string]string{"": "", "a b": "\xff"}, rbacv1.PolicyRule{}),
		"empty lists":      role("bad", nil, rbacv1.PolicyRule{Verbs: []string{}, APIGroups: []string{}, Resources: []string{}}),
		"verbs alone":      role("bad", nil, rbacv1.PolicyRule{Verbs: []string{"*"}}),
		"names alone":      role("bad", nil, rbacv1.PolicyRule{Verbs: []string{"*"}, ResourceNames: []string{"a"}}),
		"broken selectors": aggregate(role("bad", nil), broken, metav1.LabelSelector{MatchLabels: map[string]string{"": "\x00"}}),
	} {
		p := planned(t, aggregate(role("r", nil), everything), role("a", nil, good), bad)
		if p.Empty() {
			t.Errorf("%s: nothing is applied: %s", name, p.Why)
			continue
		}
		if rules := p.Steps[0].(plan.Change).New.(*rbacv1.ClusterRole).Rules; len(rules) != 1 {
			t.Errorf("%s: %v is applied", name, rules)
		}
		k := &caches{}
		if bad.AggregationRule != nil {
			if !itself(nil, bad) || !itself(bad, nil) {
				t.Errorf("%s: it is not enqueued", name)
			}
			if found, err := sources(bad, k.candidates); err == nil {
				t.Errorf("%s: it selects %v", name, found)
			}
		}
	}
}
