package informers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/selectors"
)

const bySelector = "selector" // services, by all pairs of their selector

// ServiceCache finds services by the pods that they select.
type ServiceCache struct{ Store[*corev1.Service] }

// Services returns the cache of services, with an index by selector, under the terms of [Objects].
func Services(f *Factory, paths ...string) (ServiceCache, error) {
	s, err := objects[*corev1.Service](f, cache.Indexers{bySelector: servicesBy(&selectors.KeySets{})}, paths)
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

// servicesBy is the index function of services. For what is labeled it returns the values of all services that would select it.
func servicesBy(known *selectors.KeySets) cache.IndexFunc {
	return func(o any) ([]string, error) {
		switch o := o.(type) {
		case *corev1.Service:
			if o.Spec.Selector == nil {
				return nil, nil // a service without selector selects no pod
			}
			return []string{known.Note(o.Namespace, o.Spec.Selector)}, nil
		case labeled:
			return known.Values(o.namespace, o.labels), nil
		}
		return nil, nil
	}
}

// labeled is what services and budgets look at in a pod.
type labeled struct {
	namespace string
	labels    map[string]string
}
