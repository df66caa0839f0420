package endpoint

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

func kind(name string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(name) }

func keyOf(o plan.Object) plan.Key { return plan.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// enqueuedByEndpoints returns the key of Endpoints that were deleted (EP-2), and of those that were there before we began,
// which may be left over from a service that is gone (EP-7).
func enqueuedByEndpoints(before, after plan.Object) []plan.Key {
	switch {
	case after == nil:
		return []plan.Key{keyOf(before)}
	case before == nil && !isLeaderRecord(after):
		return []plan.Key{keyOf(after)}
	}
	return nil
}

// foreign reports whether Endpoints are not of our making. New ones may wait for a service that is about to be created,
// so they are left alone; our own may have been created so late that their service is gone already.
func foreign(added plan.Object) bool { return added.GetLabels()[managedByLabel] != managedBy }

// enqueuedByPod returns the services whose Endpoints a pod's change may alter (EP-3..6).
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	switch {
	case was == nil:
		return keysOf(k.selecting(is))
	case is == nil:
		return keysOf(k.selecting(was))
	}
	changed, relabelled := changes(was, is), !maps.Equal(was.Labels, is.Labels)
	switch {
	case changed && !relabelled:
		return keysOf(k.selecting(is))
	case changed:
		return keysOf(union(k.selecting(was), k.selecting(is)))
	case relabelled: // those that select it as before have nothing to do
		return keysOf(inOne(k.selecting(was), k.selecting(is)))
	}
	return nil
}

func (k *caches) selecting(p *corev1.Pod) []*corev1.Service {
	return k.services.Selecting(p.Namespace, p.Labels)
}

// changes reports whether anything but the labels has changed that a service's Endpoints show (EP-4): more than the
// original compares, so that a pod that ends, or is found to be another one of the same name, is never missed.
func changes(a, b *corev1.Pod) bool {
	return a.UID != b.UID || a.Spec.NodeName != b.Spec.NodeName || a.Spec.Hostname != b.Spec.Hostname ||
		a.Spec.Subdomain != b.Spec.Subdomain || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		podutil.Finished(a) != podutil.Finished(b) || podutil.Ready(a) != podutil.Ready(b) ||
		a.Status.PodIP != b.Status.PodIP || !slices.Equal(a.Status.PodIPs, b.Status.PodIPs)
}

func union(a, b []*corev1.Service) []*corev1.Service {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// inOne are the services that are in one list only.
func inOne(a, b []*corev1.Service) (one []*corev1.Service) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			one = append(one, s)
		}
	}
	for _, s := range b {
		if !slices.Contains(a, s) {
			one = append(one, s)
		}
	}
	return one
}

func keysOf(services []*corev1.Service) []plan.Key {
	keys := make([]plan.Key, len(services))
	for i, s := range services {
		keys[i] = keyOf(s)
	}
	return keys
}
