package informers

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
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
	s, err := objects[*policyv1.PodDisruptionBudget](f, cache.Indexers{bySelector: budgetsBy(&selectors.KeySets{})}, paths)
	return BudgetCache{s, lru.New(mostSplit)}, err
}

// Selecting returns the budgets whose selector matches the labels of a pod in the namespace: an empty selector matches every pod,
// none matches no pod, and neither does one that no server accepts (DIS-6). The cost grows with the number of budgets found, of
// different sets of keys that selectors have, and of budgets of the namespace whose selectors have nothing but expressions other
// than In.
func (c BudgetCache) Selecting(namespace string, labels map[string]string) []*policyv1.PodDisruptionBudget {
	found, err := c.informer.GetIndexer().Index(bySelector, labeled{namespace, labels})
	if err != nil {
		panic("a cache without its index: " + err.Error()) // no constructor lets this happen
	}
	budgets := make([]*policyv1.PodDisruptionBudget, 0, len(found))
	for _, o := range found {
		b, ok := o.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		if b.Spec.Selector != nil && len(b.Spec.Selector.MatchExpressions) > 0 {
			if s := c.splitOf(b.Spec.Selector); s == nil || !s.Matches(labels) {
				continue
			}
		}
		budgets = append(budgets, b)
	}
	return budgets
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

// budgetsBy is the index function of budgets: a value for each alternative of a selector. For what is labeled it returns the values of
// all budgets that may select it.
func budgetsBy(known *selectors.KeySets) cache.IndexFunc {
	return func(o any) (values []string, _ error) {
		switch o := o.(type) {
		case *policyv1.PodDisruptionBudget:
			s, err := selectors.Split(o.Spec.Selector)
			if err != nil {
				return nil, nil // no server accepts it, and it selects nothing (DIS-6)
			}
			for _, pairs := range s.Alternatives {
				values = append(values, known.Note(o.Namespace, pairs))
			}
		case labeled:
			values = known.Values(o.namespace, o.labels)
		}
		return values, nil
	}
}
