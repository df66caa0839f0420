package informers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/selectors"
)

// ServiceCache finds services by the pods that they select.
type ServiceCache struct{ Store[*corev1.Service] }

// Services returns the cache of services, with an index by selector, under the terms of [Objects].
func Services(f *Factory, paths ...string) (ServiceCache, error) {
	s, err := selectingObjects(f, func(s *corev1.Service) []map[string]string {
		if s.Spec.Selector == nil {
			return nil // a service without selector selects no pod
		}
		return []map[string]string{s.Spec.Selector}
	}, paths)
	return ServiceCache{s}, err
}

// Selecting returns the services whose selector matches the labels of a pod in the namespace. Services without selector
// match no pod (EP-6), those with an empty one match every pod. The cost grows with the number of services found and of
// different sets of keys that selectors have, not with the number of services.
func (c ServiceCache) Selecting(namespace string, labels map[string]string) []*corev1.Service {
	return slices.DeleteFunc(c.selecting(namespace, labels),
		func(s *corev1.Service) bool { return !selectors.HasPairs(labels, s.Spec.Selector) })
}
