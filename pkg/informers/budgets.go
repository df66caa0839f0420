package informers

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
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
	known := &keySets{byFirst: map[string][][]string{}}
	s, err := objects[*policyv1.PodDisruptionBudget](f, cache.Indexers{bySelector: func(o any) ([]string, error) {
		if b, ok := o.(*policyv1.PodDisruptionBudget); ok {
			return known.budget(b), nil
		}
		return known.index(o)
	}}, paths)
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
			if s := c.splitOf(b.Spec.Selector); s == nil || !s.matches(labels) {
				continue
			}
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// splitOf returns the selector of a cached budget, nil if no server accepts it.
func (c BudgetCache) splitOf(s *metav1.LabelSelector) *selector {
	if known, ok := c.split.Get(s); ok {
		return known.(*selector)
	}
	var found *selector
	if parsed, err := split(s); err == nil {
		found = &parsed
	}
	c.split.Add(s, found)
	return found
}

// budget returns what a budget is indexed under: a value for each alternative of its selector.
func (k *keySets) budget(b *policyv1.PodDisruptionBudget) (values []string) {
	s, err := split(b.Spec.Selector)
	if err != nil {
		return nil
	}
	for _, pairs := range s.alternatives {
		keys := keysOf(pairs)
		k.note(keys)
		values = append(values, valueOf(b.Namespace, keys, pairs))
	}
	return values
}
