package informers

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const bySelector = "selector" // services, by all pairs of their selector

// ServiceCache finds services by the pods that they select.
type ServiceCache struct{ Store[*corev1.Service] }

// Services returns the cache of services, with an index by selector, under the terms of [Objects].
func Services(f *Factory, paths ...string) (ServiceCache, error) {
	known := &keySets{byFirst: map[string][][]string{}}
	s, err := objects[*corev1.Service](f, cache.Indexers{bySelector: known.index}, paths)
	return ServiceCache{s}, err
}

// Selecting returns the services whose selector matches the labels of a pod in the namespace. Services without selector
// match no pod (EP-6), those with an empty one match every pod. The cost grows with the number of services found and of
// different sets of keys that selectors have, not with the number of services.
func (c ServiceCache) Selecting(namespace string, labels map[string]string) []*corev1.Service {
	found, err := c.informer.GetIndexer().Index(bySelector, labeled{namespace, labels})
	if err != nil {
		panic("a cache without its index: " + err.Error()) // no constructor lets this happen
	}
	services := make([]*corev1.Service, 0, len(found))
	for _, o := range found {
		if s, ok := o.(*corev1.Service); ok {
			services = append(services, s)
		}
	}
	return services
}

// keySets are the sets of keys that selectors of services have had. With them the services of a pod are found by a
// lookup for each set whose keys the pod all has, instead of by looking at services: of one that selects by app and tier,
// only those are found that select just the app and tier of the pod.
//
// The index function of services notes a set before the service can be seen in the index, so none is ever missed. Sets
// are not forgotten: there are few, and one that is no longer used costs a lookup that finds nothing.
type keySets struct {
	mu      sync.RWMutex
	byFirst map[string][][]string // sorted keys, by the first of them
	nothing bool                  // whether there was an empty selector
}

// index is the index function of services. For what is labeled it returns the values of all services that would select it.
func (k *keySets) index(o any) ([]string, error) {
	switch o := o.(type) {
	case *corev1.Service:
		if o.Spec.Selector == nil {
			return nil, nil // EP-6
		}
		keys := keysOf(o.Spec.Selector)
		k.note(keys)
		return []string{valueOf(o.Namespace, keys, o.Spec.Selector)}, nil
	case labeled:
		return k.valuesFor(o), nil
	}
	return nil, nil
}

func (k *keySets) note(keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(keys) == 0 {
		k.nothing = true
		return
	}
	same := func(other []string) bool { return slices.Equal(keys, other) }
	if !slices.ContainsFunc(k.byFirst[keys[0]], same) {
		k.byFirst[keys[0]] = append(k.byFirst[keys[0]], keys)
	}
}

// labeled is what services look at in a pod.
type labeled struct {
	namespace string
	labels    map[string]string
}

func (k *keySets) valuesFor(p labeled) (values []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.nothing {
		values = append(values, valueOf(p.namespace, nil, nil))
	}
	for first := range p.labels {
		for _, keys := range k.byFirst[first] {
			if hasAll(p.labels, keys) {
				values = append(values, valueOf(p.namespace, keys, p.labels))
			}
		}
	}
	return values
}
