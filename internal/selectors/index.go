package selectors

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// labeled is what selectors look at in an object.
type labeled struct {
	namespace string
	labels    map[string]string
}

// IndexFunc returns the index function of objects that have a selector, for [Selecting]. alternatives returns the sets of labels of which an
// object may select what has all labels of one; none if it selects nothing.
func IndexFunc[T metav1.Object](alternatives func(T) []map[string]string) cache.IndexFunc {
	known := &keySets{}
	return func(o any) (values []string, _ error) {
		switch o := o.(type) {
		case T:
			for _, pairs := range alternatives(o) {
				keys := keysOf(pairs)
				known.note(keys)
				values = append(values, valueOf(o.GetNamespace(), keys, pairs))
			}
		case labeled:
			values = known.values(o.namespace, o.labels)
		}
		return values, nil
	}
}

// Selecting returns the objects of the namespace that an index of [IndexFunc] finds for the labels. The cost grows with the number of objects
// found and of different sets of keys that selectors have, not with the number of objects.
func Selecting(indexer cache.Indexer, index, namespace string, labels map[string]string) ([]any, error) {
	return indexer.Index(index, labeled{namespace, labels})
}
