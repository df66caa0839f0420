package endpoints

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Enqueued returns the services that a pod's change may concern (EP-3..6, EPS-14): before is nil for a new pod, after
// for one that is gone. What selects pods with some labels in a namespace, selecting says.
func Enqueued(before, after plan.Object,
	selecting func(namespace string, labels map[string]string) []*corev1.Service) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	of := func(p *corev1.Pod) []*corev1.Service { return selecting(p.Namespace, p.Labels) }
	switch {
	case was == nil:
		return keysOf(of(is))
	case is == nil:
		return keysOf(of(was))
	}
	changed, relabelled := changes(was, is), !maps.Equal(was.Labels, is.Labels)
	switch {
	case changed && !relabelled:
		return keysOf(of(is))
	case changed:
		return keysOf(union(of(was), of(is)))
	case relabelled: // those that select it as before have nothing to do
		return keysOf(inOne(of(was), of(is)))
	}
	return nil
}

// changes reports whether anything but the labels has changed that a service's Endpoints show (EP-4): more than the
// original compares, so that a pod that ends, or is found to be another one of the same name, is never missed.
func changes(a, b *corev1.Pod) bool {
	return a.UID != b.UID || a.Spec.NodeName != b.Spec.NodeName || a.Spec.Hostname != b.Spec.Hostname ||
		a.Spec.Subdomain != b.Spec.Subdomain || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		podutil.Finished(a) != podutil.Finished(b) || podutil.Ready(a) != podutil.Ready(b) ||
		a.Status.PodIP != b.Status.PodIP || !slices.Equal(a.Status.PodIPs, b.Status.PodIPs)
}

// union returns the services of both lists, each once.
func union(a, b []*corev1.Service) []*corev1.Service { return append(a, notIn(a, b)...) }

// inOne are the services that are in one list only.
func inOne(a, b []*corev1.Service) []*corev1.Service { return append(notIn(b, a), notIn(a, b)...) }

// notIn are the services of b that are not in a. Thousands of services may select one pod.
func notIn(a, b []*corev1.Service) (others []*corev1.Service) {
	in := sets.New(a...)
	for _, s := range b {
		if !in.Has(s) {
			others = append(others, s)
		}
	}
	return others
}

// keysOf returns the keys of services.
func keysOf(services []*corev1.Service) []plan.Key {
	keys := make([]plan.Key, len(services))
	for i, s := range services {
		keys[i] = plan.KeyOf(s)
	}
	return keys
}
