package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// garbage reports whether the deletion of an object can be the garbage collector's, or the namespace controller's: none of its
// owners is known to exist and to stay, or its namespace ends. Of kinds that are not recorded, nothing is known.
func (w *world) garbage(o Object) bool {
	if w.ending[o.GetNamespace()] {
		return true
	}
	refs := o.GetOwnerReferences()
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
		owner := w.owners[identity{ref.Kind, ref.UID}]
		return newObject(ref.Kind) != nil && owner != nil && owner.gone == nil && owner.deleting.IsZero()
	})
}

// others reports whether the deletion of a pod can be that of a controller that does not ask whether the pod is needed: the
// garbage collector, the namespace controller, or taint eviction, of nodes or of devices, which marks the pods that it deletes (S27
// and S40 judge that).
func (w *world) others(p *pod) bool {
	node := w.nodes[p.Spec.NodeName]
	return w.garbage(p) || marked(p.Pod) || markedForDevice(p.Pod) ||
		node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}
