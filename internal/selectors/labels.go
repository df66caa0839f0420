package selectors

import (
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// LabelIndexes are the indexes of a cache by labels. There is one for each set of keys that a lookup has had, by the values of those labels. So
// a lookup finds what it looks for and nothing else, and an object takes room in the indexes that are in use, not one for each of its labels.
// It is safe for concurrent use.
type LabelIndexes struct {
	// Most is how many there may be: each costs a little time for every change of any object. Lookups for which there is none go through the
	// namespace.
	Most  int32
	added atomic.Int32
}

// Find returns the objects of the namespace that have all pairs. The indexer has an index by namespace, and add adds others to it.
func (x *LabelIndexes) Find(indexer cache.Indexer, add func(cache.Indexers) error, namespace string, pairs map[string]string) ([]any, error) {
	if len(pairs) == 0 {
		return indexer.ByIndex(cache.NamespaceIndex, namespace)
	}
	keys := keysOf(pairs)
	name, value := "labels "+strings.Join(keys, ","), valueOf(namespace, keys, pairs)
	found, err := indexer.ByIndex(name, value)
	if err != nil && x.added.Load() < x.Most {
		if add(cache.Indexers{name: indexByLabels(keys)}) == nil { // or another worker was faster
			x.added.Add(1)
		}
		found, err = indexer.ByIndex(name, value)
	}
	if err == nil {
		return found, nil
	}
	found, err = indexer.ByIndex(cache.NamespaceIndex, namespace)
	return slices.DeleteFunc(found, func(o any) bool {
		object, ok := o.(metav1.Object)
		return !ok || !HasPairs(object.GetLabels(), pairs)
	}), err
}

// indexByLabels returns the index function of objects that have labels with all of the sorted keys, by the values of these.
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

// valueOf is what objects with these labels are indexed under. No name, key or label value has a zero byte in it.
func valueOf(namespace string, keys []string, labels map[string]string) string {
	n := len(namespace)
	for _, key := range keys {
		n += len(key) + len(labels[key]) + 2
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(namespace)
	for _, key := range keys {
		b.WriteByte(0)
		b.WriteString(key)
		b.WriteByte(0)
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
