package podutil

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeReady reports whether a node says that it is ready for pods.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
