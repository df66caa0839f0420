package informers

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Slim takes off an object what no planner reads, before it is cached. All kinds lose managedFields (CI-11); pods, which
// are many, keep only what is named in slimPod. A slimmed pod must never be written back whole, only as a patch.
//
// It is a cache.TransformFunc and never fails. It does not write to an object that it has been applied to before.
func Slim(o any) (any, error) {
	switch o := o.(type) {
	case cache.DeletedFinalStateUnknown:
		o.Obj, _ = Slim(o.Obj)
		return o, nil
	case *corev1.Pod:
		return slimPod(o), nil
	case *corev1.Node: // nobody writes these back whole
		slimMeta(o, corev1.LastAppliedConfigAnnotation)
		if o.Status.Images != nil { // most of what a node weighs
			o.Status.Images = nil
		}
	case *corev1.Service: // nobody writes these back whole
		slimMeta(o, corev1.LastAppliedConfigAnnotation)
	default: // nor must anything else be missing where somebody does: Deployments, the status of ReplicaSets (RB-13)
		if object, err := meta.Accessor(o); err == nil {
			slimMeta(object)
		}
	}
	return o, nil
}

// slimMeta drops managedFields and the annotations of the given keys. It does not write to an object that has none.
func slimMeta(o metav1.Object, annotations ...string) {
	if o.GetManagedFields() != nil {
		o.SetManagedFields(nil)
	}
	for _, key := range annotations {
		if _, ok := o.GetAnnotations()[key]; ok {
			rest := maps.Clone(o.GetAnnotations())
			delete(rest, key)
			o.SetAnnotations(rest)
		}
	}
}

// slimPod copies what is kept into a new object, and lists into arrays of their length, so that nothing else of what was
// decoded stays in memory.
func slimPod(p *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:                       p.Name,
			Namespace:                  p.Namespace,
			UID:                        p.UID,
			ResourceVersion:            p.ResourceVersion,
			Generation:                 p.Generation,
			Labels:                     p.Labels,
			Annotations:                slimAnnotations(p.Annotations),
			OwnerReferences:            fitted(p.OwnerReferences),
			Finalizers:                 fitted(p.Finalizers),
			CreationTimestamp:          p.CreationTimestamp,
			DeletionTimestamp:          p.DeletionTimestamp,
			DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
		},
		Spec: corev1.PodSpec{
			NodeName:       p.Spec.NodeName,
			Hostname:       p.Spec.Hostname,  // EP-15
			Subdomain:      p.Spec.Subdomain, // EP-15
			Containers:     slimContainers(p.Spec.Containers),
			InitContainers: slimContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			ObservedGeneration:    p.Status.ObservedGeneration, // PGC-14
			Phase:                 p.Status.Phase,
			Reason:                p.Status.Reason,         // PGC-5
			PodIP:                 p.Status.PodIP,          // EP-11
			PodIPs:                fitted(p.Status.PodIPs), // EP-14
			Conditions:            fitted(p.Status.Conditions),
			ContainerStatuses:     slimStatuses(p.Status.ContainerStatuses),
			InitContainerStatuses: slimStatuses(p.Status.InitContainerStatuses),
		},
	}
}

// fitted returns the list in an array of its length: decoders leave room to grow.
func fitted[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// slimAnnotations keeps the one annotation of pods that a planner reads (RS-31).
func slimAnnotations(annotations map[string]string) map[string]string {
	if cost, ok := annotations[corev1.PodDeletionCost]; ok {
		return map[string]string{corev1.PodDeletionCost: cost}
	}
	return nil
}

// slimContainers keeps ports, which services name (EP-17), and what makes an init container a sidecar. Of most containers
// nothing is left.
func slimContainers(containers []corev1.Container) []corev1.Container {
	var slim []corev1.Container
	for i := range containers {
		if c := &containers[i]; len(c.Ports) > 0 || c.RestartPolicy != nil {
			slim = append(slim, corev1.Container{Name: c.Name, Ports: fitted(c.Ports), RestartPolicy: c.RestartPolicy})
		}
	}
	return fitted(slim)
}

// slimStatuses keeps restart counts, by which victims are ranked (RS-31). Most containers never restart.
func slimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var slim []corev1.ContainerStatus
	for i := range statuses {
		if s := &statuses[i]; s.RestartCount != 0 {
			slim = append(slim, corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount})
		}
	}
	return fitted(slim)
}
