package nodes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Condition returns the condition of a type, nil if the node has none.
func Condition(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &n.Status.Conditions[i]
}

// Ready reports whether a node says that it is ready for pods.
func Ready(n *corev1.Node) bool {
	c := Condition(n, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// ReadyChanged returns when a node has become ready or not ready, as its status says. A node without the condition
// has not been ready since it was created.
func ReadyChanged(n *corev1.Node) time.Time {
	if c := Condition(n, corev1.NodeReady); c != nil {
		return c.LastTransitionTime.Time
	}
	return n.CreationTimestamp.Time
}

// OutOfService reports whether a node has the taint out-of-service: nothing runs there any more (AD-10, PGC-7).
func OutOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}
