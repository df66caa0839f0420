package selectors

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// lookup is what [Selecting] looks up in place of an object: the labels that selectors look at. The index function
// answers in it.
type lookup struct {
	namespace string
	labels    map[string]string
	index     *selectorIndex
	known     bool // the key sets of the namespace are
}

// selectorIndex is what an index function of [IndexFunc] knows.
type selectorIndex struct {
	keySets
	alternatives func(any) []map[string]string
}

// IndexFunc returns the index function of objects that have a selector, for [Selecting]. alternatives returns the
// sets of labels of which an object may select what has all labels of one; none if it selects nothing.
func IndexFunc[T metav1.Object](alternatives func(T) []map[string]string) cache.IndexFunc {
	x := &selectorIndex{alternatives: func(o any) []map[string]string {
		t, ok := o.(T)
		if !ok {
			return nil
		}
		return alternatives(t)
	}}
	return func(o any) (values []string, _ error) {
		switch o := o.(type) {
		case T:
			for _, pairs := range alternatives(o) {
				keys := indexedKeys(pairs)
				x.note(o.GetNamespace(), keys)
				values = append(values, valueOf(o.GetNamespace(), keys, pairs))
			}
		case *lookup:
			o.index = x
			values, o.known = x.values(o.namespace, o.labels)
		}
		return values, nil
	}
}

// indexedKeys are the keys by whose values a selector of equality is found: the first ones, sorted.
func indexedKeys(pairs map[string]string) []string {
	keys := keysOf(pairs)
	return keys[:min(len(keys), mostKeys)]
}

// Selecting returns the objects of the namespace that an index of [IndexFunc] finds for the labels; the indexer also
// has one by namespace. The cost grows with the number of objects found and of different sets of keys that selectors
// of the namespace have, not with the number of objects, unless these sets are many. Whoever has selectors of more
// than a few labels checks the rest of them: see [HasPairs].
func Selecting(indexer cache.Indexer, index, namespace string, labels map[string]string) ([]any, error) {
	l := &lookup{namespace: namespace, labels: labels}
	found, err := indexer.Index(index, l)
	if err != nil || l.known {
		return found, err
	}
	sets := l.index.begin(namespace)
	all, err := indexer.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	var keys [][]string
	for _, o := range all {
		selects := false
		for _, pairs := range l.index.alternatives(o) {
			if selects = selects || HasPairs(labels, pairs); sets != nil {
				keys = append(keys, indexedKeys(pairs))
			}
		}
		if selects {
			found = append(found, o)
		}
	}
	if sets != nil {
		l.index.complete(namespace, sets, keys)
	}
	return found, nil
}
