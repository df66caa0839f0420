package selectors

import (
	"slices"
	"sync"
)

// keySets are the sets of keys that selectors of equality have had. With them, what selects a set of labels is found by a lookup in an
// index for each set whose keys the labels all have, instead of by a look at each selector: among selectors by app and tier, only
// those are found that select just the app and tier of a pod.
//
// The index function notes a set before an object with it can be seen in the index, so none is ever missed. Sets are not forgotten:
// there are few, and one that is no longer used costs a lookup that finds nothing. The zero value knows none. It is safe for
// concurrent use.
type keySets struct {
	mu      sync.RWMutex
	byFirst map[string][][]string // sorted keys, by the first of them
	nothing bool                  // whether there was an empty selector
}

// note notes the sorted keys of a selector of equality.
func (k *keySets) note(keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(keys) == 0 {
		k.nothing = true
		return
	}
	same := func(other []string) bool { return slices.Equal(keys, other) }
	if !slices.ContainsFunc(k.byFirst[keys[0]], same) {
		if k.byFirst == nil {
			k.byFirst = map[string][][]string{}
		}
		k.byFirst[keys[0]] = append(k.byFirst[keys[0]], keys)
	}
}

// values returns what objects are indexed under whose selectors match the labels in the namespace.
func (k *keySets) values(namespace string, labels map[string]string) (values []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.nothing {
		values = append(values, valueOf(namespace, nil, nil))
	}
	for first := range labels {
		for _, keys := range k.byFirst[first] {
			if hasKeys(labels, keys) {
				values = append(values, valueOf(namespace, keys, labels))
			}
		}
	}
	return values
}
