package informers

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/standalone-kcm/controller-manager/internal/selectors"
)

// mostSplit is how many split selectors are kept, so that a lookup need not parse them.
const mostSplit = 4096

// BudgetCache finds PodDisruptionBudgets by the pods that they select.
type BudgetCache struct {
	Store[*policyv1.PodDisruptionBudget]
	split *lru.Cache // selectors by their addresses: what is in the cache does not change
}

// Budgets returns the cache of PodDisruptionBudgets, with an index by selector, under the terms of [Objects].
func Budgets(f *Factory, paths ...string) (BudgetCache, error) {
	s, err := selectingObjects(f, func(b *policyv1.PodDisruptionBudget) []map[string]string {
		split, _ := selectors.Split(b.Spec.Selector) // one that no server accepts selects nothing (DIS-6)
		return split.Alternatives
	}, paths)
	return BudgetCache{s, lru.New(mostSplit)}, err
}

// Selecting returns the budgets whose selector matches the labels of a pod in the namespace: an empty selector matches every pod,
// none matches no pod, and neither does one that no server accepts (DIS-6). The cost grows with the number of budgets found, of
// different sets of keys that selectors have, and of budgets of the namespace whose selectors have nothing but expressions other
// than In.
func (c BudgetCache) Selecting(namespace string, labels map[string]string) []*policyv1.PodDisruptionBudget {
	return slices.DeleteFunc(c.selecting(namespace, labels), func(b *policyv1.PodDisruptionBudget) bool {
		if b.Spec.Selector == nil || len(b.Spec.Selector.MatchExpressions) == 0 {
			return false
		}
		s := c.splitOf(b.Spec.Selector)
		return s == nil || !s.Matches(labels)
	})
}

// splitOf returns the selector of a cached budget, nil if no server accepts it.
func (c BudgetCache) splitOf(s *metav1.LabelSelector) *selectors.Selector {
	if known, ok := c.split.Get(s); ok {
		return known.(*selectors.Selector)
	}
	var found *selectors.Selector
	if parsed, err := selectors.Split(s); err == nil {
		found = &parsed
	}
	c.split.Add(s, found)
	return found
}
