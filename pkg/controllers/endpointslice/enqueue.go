package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
)

// movesPods reports whether a change of a node changes where its pods are known to be. A node that has gone does not:
// it may come back, with its pods unharmed, and if it does not, the pods go themselves (EPS-18, EPS-80).
func movesPods(was, is *corev1.Node) bool {
	return is != nil && (was == nil || was.Labels[corev1.LabelTopologyZone] != is.Labels[corev1.LabelTopologyZone])
}

// changesShares reports whether a change of a node may change which share of the CPU a zone has (EPS-51).
func changesShares(was, is *corev1.Node) bool {
	before, after := was != nil && countsForTopology(was), is != nil && countsForTopology(is)
	if !before || !after {
		return before != after
	}
	return was.Labels[corev1.LabelTopologyZone] != is.Labels[corev1.LabelTopologyZone] ||
		was.Status.Allocatable.Cpu().Cmp(*is.Status.Allocatable.Cpu()) != 0
}
