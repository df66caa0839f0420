package podutil

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// Restarts returns the highest restart count of regular containers, and that of sidecars (RS-31.7).
func Restarts(p *corev1.Pod) (most [2]int32) {
	for _, s := range p.Status.ContainerStatuses {
		most[0] = max(most[0], s.RestartCount)
	}
	for _, s := range p.Status.InitContainerStatuses {
		if sidecar(p, s.Name) {
			most[1] = max(most[1], s.RestartCount)
		}
	}
	return most
}

// sidecar reports whether the init container of that name keeps running beside the regular ones.
func sidecar(p *corev1.Pod, name string) bool {
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// FalseFirst compares two facts for an order in which what does not hold comes first.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// ByCreation orders pods, the oldest first. Those of the same second have an order, too.
func ByCreation(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}
