package selectors

import (
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// mostKeys bounds the keys by which a selector is found. What is left of it is checked label by label.
	mostKeys = 16
	// mostSets bounds the sets of one namespace, and mostNamespaces the namespaces whose sets are known.
	mostSets       = 64
	mostNamespaces = 4096
	// scansOfMany is how many lookups go through a namespace with too many sets until they are found out again.
	scansOfMany = 100
)

// keySets are the sets of keys that selectors of equality have, by namespace. With them, what selects a set of labels
// is found by a lookup in an index for each set whose keys the labels all have, instead of by a look at each
// selector: among selectors by app and tier, only those are found that select just the app and tier of a pod.
//
// The sets of a namespace are found out from its objects when somebody asks. From then on, the index function notes a
// set before an object with it can be seen in the index, so none is ever missed. Sets of selectors that are gone are
// forgotten when the sets are found out again, because there were too many. What a namespace has costs no other one.
// The zero value knows no namespace. It is safe for concurrent use.
type keySets struct {
	mu         sync.RWMutex
	namespaces map[string]*namespaceSets
}

// namespaceSets are the sets of one namespace.
type namespaceSets struct {
	complete bool                // they have been found out
	known    map[string]bool     // sorted keys, joined
	byFirst  map[string][]string // the first key of a set, and all its keys, joined
	many     bool                // there are too many, and none is known
	scans    atomic.Int32        // since that is known
}

// note notes the sorted keys of a selector of equality.
func (k *keySets) note(namespace string, keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.namespaces[namespace]; s != nil && !s.many && !s.add(keys) {
		delete(k.namespaces, namespace)
	}
}

// add returns false if there are too many sets.
func (s *namespaceSets) add(keys []string) bool {
	set := strings.Join(keys, separator)
	if s.known[set] {
		return true
	}
	if len(s.known) == mostSets {
		return false
	}
	s.known[set] = true
	if len(keys) > 0 {
		s.byFirst[keys[0]] = append(s.byFirst[keys[0]], set)
	}
	return true
}

// begin has the sets of a namespace noted that are not known, until [keySets.complete] is called with those that
// there are already. It returns nil if they are not to be found out now.
func (k *keySets) begin(namespace string) *namespaceSets {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.namespaces[namespace]; s != nil && s.many && s.scans.Add(1) < scansOfMany {
		return nil
	}
	if k.namespaces == nil || len(k.namespaces) >= mostNamespaces {
		k.namespaces = map[string]*namespaceSets{}
	}
	s := &namespaceSets{known: map[string]bool{}, byFirst: map[string][]string{}}
	k.namespaces[namespace] = s
	return s
}

// complete adds sets to those that were noted since s was begun.
func (k *keySets) complete(namespace string, s *namespaceSets, sets [][]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.namespaces[namespace] != s {
		return // there have been too many meanwhile, or others find them out
	}
	for _, keys := range sets {
		if !s.add(keys) {
			k.namespaces[namespace] = &namespaceSets{many: true}
			return
		}
	}
	s.complete = true
}

// values returns what objects are indexed under whose selectors match the labels in the namespace, and false if its
// sets are not known.
func (k *keySets) values(namespace string, labels map[string]string) (values []string, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	s := k.namespaces[namespace]
	if s == nil || !s.complete {
		return nil, false
	}
	if s.known[""] {
		values = append(values, valueOf(namespace, nil, nil))
	}
	for first := range labels {
		for _, set := range s.byFirst[first] {
			if keys := strings.Split(set, separator); hasKeys(labels, keys) {
				values = append(values, valueOf(namespace, keys, labels))
			}
		}
	}
	return values, true
}
