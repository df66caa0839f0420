package informers

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/selectors"
)

// BudgetCache finds PodDisruptionBudgets by the pods that they select.
type BudgetCache struct {
	Store[*policyv1.PodDisruptionBudget]
	split *splitSelectors
}

// splitSelectors keeps split selectors of cached objects, which do not change, so that a lookup need not parse them.
// What is kept of a selector goes with it. It is safe for concurrent use.
type splitSelectors struct {
	mu    sync.Mutex
	known map[weak.Pointer[metav1.LabelSelector]]*selectors.Selector
}

// Budgets returns the cache of PodDisruptionBudgets, with an index by selector, under the terms of [Objects].
func Budgets(f *Factory, paths ...string) (BudgetCache, error) {
	c := BudgetCache{split: &splitSelectors{known: map[weak.Pointer[metav1.LabelSelector]]*selectors.Selector{}}}
	var err error
	c.Store, err = selectingObjects(f, func(b *policyv1.PodDisruptionBudget) []map[string]string {
		if s := c.split.of(b.Spec.Selector); s != nil {
			return s.Alternatives
		}
		return nil // one that no server accepts selects nothing (DIS-6)
	}, paths)
	return c, err
}

// Selecting returns the budgets whose selector matches the labels of a pod in the namespace: an empty selector
// matches every pod, none matches no pod, and neither does one that no server accepts (DIS-6). The cost grows with
// the number of budgets found, of different sets of keys that selectors have, and of budgets of the namespace whose
// selectors have nothing but expressions other than In.
func (c BudgetCache) Selecting(namespace string, labels map[string]string) []*policyv1.PodDisruptionBudget {
	return slices.DeleteFunc(c.selecting(namespace, labels), func(b *policyv1.PodDisruptionBudget) bool {
		if b.Spec.Selector == nil || len(b.Spec.Selector.MatchExpressions) == 0 {
			return b.Spec.Selector != nil && !selectors.HasPairs(labels, b.Spec.Selector.MatchLabels)
		}
		s := c.split.of(b.Spec.Selector)
		return s == nil || !s.Matches(labels)
	})
}

// of returns the split selector of a cached object, nil if no server accepts it, or if it is nil.
func (c *splitSelectors) of(s *metav1.LabelSelector) *selectors.Selector {
	if s == nil {
		return nil
	}
	key := weak.Make(s)
	c.mu.Lock()
	found, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return found
	}
	if parsed, err := selectors.Split(s); err == nil {
		found = &parsed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[key]; !ok {
		c.known[key] = found
		runtime.AddCleanup(s, c.forget, key)
	}
	return found
}

// forget drops what is known of a selector that nothing refers to any more.
func (c *splitSelectors) forget(key weak.Pointer[metav1.LabelSelector]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}
