package informers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Slim takes off an object what no planner reads, before it is cached. All kinds lose managedFields (CI-11); pods, which
// are many, keep only what is named in slimPod. A slimmed pod must never be written back whole, only as a patch.
// It is a cache.TransformFunc and never fails.
func Slim(o any) (any, error) {
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
		missed.Obj, _ = Slim(missed.Obj)
		return missed, nil
	}
	if pod, ok := o.(*corev1.Pod); ok {
		return slimPod(pod), nil
	}
	if object, err := meta.Accessor(o); err == nil && object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	return o, nil
}

// slimPod copies into a new object what is kept, so that nothing of the decoded one stays reachable.
func slimPod(p *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:                       p.Name,
			Namespace:                  p.Namespace,
			UID:                        p.UID,
			ResourceVersion:            p.ResourceVersion,
			Generation:                 p.Generation,
			Labels:                     p.Labels,
			Annotations:                slimAnnotations(p.Annotations),
			OwnerReferences:            p.OwnerReferences,
			Finalizers:                 p.Finalizers,
			CreationTimestamp:          p.CreationTimestamp,
			DeletionTimestamp:          p.DeletionTimestamp,
			DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
		},
		Spec: corev1.PodSpec{
			NodeName:       p.Spec.NodeName,
			Hostname:       p.Spec.Hostname,
			Subdomain:      p.Spec.Subdomain,
			Containers:     slimContainers(p.Spec.Containers),
			InitContainers: slimContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			ObservedGeneration:    p.Status.ObservedGeneration,
			Phase:                 p.Status.Phase,
			Reason:                p.Status.Reason,
			PodIP:                 p.Status.PodIP,
			PodIPs:                p.Status.PodIPs,
			Conditions:            p.Status.Conditions,
			ContainerStatuses:     slimStatuses(p.Status.ContainerStatuses),
			InitContainerStatuses: slimStatuses(p.Status.InitContainerStatuses),
		},
	}
}

// slimAnnotations keeps the one annotation of pods that a planner reads (RS-31).
func slimAnnotations(annotations map[string]string) map[string]string {
	if cost, ok := annotations[corev1.PodDeletionCost]; ok {
		return map[string]string{corev1.PodDeletionCost: cost}
	}
	return nil
}

// slimContainers keeps ports, which services name (EP-17), and what makes an init container a sidecar.
func slimContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	slim := make([]corev1.Container, len(containers))
	for i, c := range containers {
		slim[i] = corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
	}
	return slim
}

// slimStatuses keeps restart counts, by which victims are ranked (RS-31).
func slimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(statuses) == 0 {
		return nil
	}
	slim := make([]corev1.ContainerStatus, len(statuses))
	for i, s := range statuses {
		slim[i] = corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount}
	}
	return slim
}
