package endpointslicemirroring

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// enqueuedByService returns the key of a service without selector that has come or gone, and of one that has got or
// lost its selector (ESM-6).
func enqueuedByService(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Service)
	is, _ := after.(*corev1.Service)
	of := func(s *corev1.Service) []plan.Key { return []plan.Key{{Namespace: s.Namespace, Name: s.Name}} }
	switch {
	case was != nil && is != nil:
		if (was.Spec.Selector == nil) != (is.Spec.Selector == nil) {
			return of(is)
		}
	case is != nil && is.Spec.Selector == nil:
		return of(is)
	case was != nil && was.Spec.Selector == nil:
		return of(was)
	}
	return nil
}
