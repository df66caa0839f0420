package selectors

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// LabelIndexes are the indexes of a cache by labels. There is one for each set of keys that a lookup has had, by the
// values of those labels. So a lookup finds what it looks for and nothing else, and an object takes room in the
// indexes that are in use, not one for each of its labels. It is safe for concurrent use.
type LabelIndexes struct {
	// Most is how many there may be: each costs a little time for every change of any object. Lookups for which there
	// is none go through the namespace, as those in small namespaces do.
	Most int
	// From is how many objects a namespace has for which an index is added. Fewer are looked at one by one.
	From int

	mu    sync.Mutex
	added map[string]bool // by name
	by    map[string]int  // how many each namespace has brought
}

// mostOfOne bounds the indexes that the lookups in one namespace add, so that they leave some for others.
const mostOfOne = 10

// Find returns the objects of the namespace that have all pairs. The indexer has an index by namespace, and add adds
// others to it.
func (x *LabelIndexes) Find(indexer cache.Indexer, add func(cache.Indexers) error, namespace string,
	pairs map[string]string) ([]any, error) {
	if len(pairs) == 0 {
		return indexer.ByIndex(cache.NamespaceIndex, namespace)
	}
	keys := keysOf(pairs)
	name, value := "labels "+strings.Join(keys, ","), valueOf(namespace, keys, pairs)
	if found, err := indexer.ByIndex(name, value); err == nil {
		return found, nil
	}
	found, err := indexer.ByIndex(cache.NamespaceIndex, namespace)
	if len(found) >= x.From && x.grant(namespace, name) {
		_ = add(cache.Indexers{name: indexByLabels(keys)}) // it fails for a cache that has one of that name
	}
	return slices.DeleteFunc(found, func(o any) bool {
		object, ok := o.(metav1.Object)
		return !ok || !HasPairs(object.GetLabels(), pairs)
	}), err
}

// grant reports whether a lookup in a namespace is to add an index: no other one is about to, and there may be one
// more.
func (x *LabelIndexes) grant(namespace, name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.added[name] || len(x.added) >= x.Most || x.by[namespace] >= mostOfOne {
		return false
	}
	if x.by == nil {
		x.added, x.by = map[string]bool{}, map[string]int{}
	}
	x.added[name] = true
	x.by[namespace]++
	return true
}

// indexByLabels returns the index function of objects that have labels with all of the sorted keys, by the values of
// these.
func indexByLabels(keys []string) cache.IndexFunc {
	return func(o any) ([]string, error) {
		if object, ok := o.(metav1.Object); ok && hasKeys(object.GetLabels(), keys) {
			return []string{valueOf(object.GetNamespace(), keys, object.GetLabels())}, nil
		}
		return nil, nil
	}
}

// HasPairs reports whether the labels have all pairs.
func HasPairs(labels, pairs map[string]string) bool {
	for key, value := range pairs {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// keysOf returns the keys of labels, sorted.
func keysOf(selector map[string]string) []string {
	keys := make([]string, 0, len(selector))
	for key := range selector {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// separator is a zero byte, which no name, key or label value has in it.
const separator = "\x00"

// valueOf is what objects with these labels are indexed under.
func valueOf(namespace string, keys []string, labels map[string]string) string {
	n := len(namespace)
	for _, key := range keys {
		n += len(key) + len(labels[key]) + 2
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(namespace)
	for _, key := range keys {
		b.WriteString(separator)
		b.WriteString(key)
		b.WriteString(separator)
		b.WriteString(labels[key])
	}
	return b.String()
}

// hasKeys reports whether the labels have all keys.
func hasKeys(labels map[string]string, keys []string) bool {
	for _, key := range keys {
		if _, ok := labels[key]; !ok {
			return false
		}
	}
	return true
}
