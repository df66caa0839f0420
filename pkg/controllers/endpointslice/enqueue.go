package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
)

// movesPods reports whether a change of a node changes where its pods are.
func movesPods(was, is *corev1.Node) bool {
	return was == nil || is == nil || was.Labels[corev1.LabelTopologyZone] != is.Labels[corev1.LabelTopologyZone]
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

func nameOf(n *corev1.Node) string {
	if n == nil {
		return ""
	}
	return n.Name
}
