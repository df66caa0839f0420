package daemonset

import (
	"maps"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// eligibility says whether a node runs pods of a DaemonSet.
type eligibility string

const (
	excluded  eligibility = ""          // pods on the node are deleted (DS-22)
	tolerated eligibility = "tolerated" // a pod may stay, but none is created (DS-21)
	eligible  eligibility = "eligible"  // the node runs a pod (DS-20)
)

// nodeRules are what the template of a DaemonSet asks of nodes. Resources, ports, conditions and spec.unschedulable
// do not count, because the scheduler looks at them when it places the pods (DS-23, DS-24).
type nodeRules struct {
	nodeName string // the only node; empty for any
	// affinity is what node selector and affinity require together.
	affinity nodeaffinity.RequiredNodeAffinity
	// tolerations are those of the pods, the ones included that each DaemonSet adds.
	tolerations []corev1.Toleration
	comparisons bool // tolerations may compare numbers

	labels   []string // the keys of the labels that count
	readName bool     // the name of the node counts
}

// newNodeRules reads the template of a DaemonSet once for all nodes, and notes which labels of nodes can make
// a difference.
func newNodeRules(d *appsv1.DaemonSet, comparisons bool) *nodeRules {
	spec := d.Spec.Template.Spec
	spec.Tolerations = withTolerations(spec.Tolerations, spec.HostNetwork)
	r := &nodeRules{
		nodeName: spec.NodeName, affinity: nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}),
		tolerations: spec.Tolerations, comparisons: comparisons, readName: spec.NodeName != "",
	}
	keys := map[string]bool{}
	for key := range spec.NodeSelector {
		keys[key] = true
	}
	for _, term := range podutil.RequiredNodeTerms(&spec) {
		for _, requirement := range term.MatchExpressions {
			keys[requirement.Key] = true
		}
		r.readName = r.readName || len(term.MatchFields) > 0
	}
	r.labels = slices.Sorted(maps.Keys(keys))
	return r
}

// evaluate decides about a node (DS-20..22). Terms of the affinity that make no sense match nothing.
func (r *nodeRules) evaluate(n *corev1.Node) eligibility {
	if r.nodeName != "" && r.nodeName != n.Name {
		return excluded
	}
	if matches, err := r.affinity.Match(n); err != nil || !matches {
		return excluded
	}
	switch {
	case !r.tolerates(n, corev1.TaintEffectNoExecute):
		return excluded
	case !r.tolerates(n, corev1.TaintEffectNoSchedule):
		return tolerated
	}
	return eligible
}

// tolerates reports whether all taints of the node with that effect are tolerated.
func (r *nodeRules) tolerates(n *corev1.Node, effect corev1.TaintEffect) bool {
	if len(n.Spec.Taints) == 0 {
		return true
	}
	has := func(t *corev1.Taint) bool { return t.Effect == effect }
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, r.tolerations, has,
		r.comparisons)
	return !untolerated
}

// appendClass appends to a text all that counts of a node. Nodes with equal texts have the same eligibility.
func (r *nodeRules) appendClass(text []byte, n *corev1.Node) []byte {
	for _, key := range r.labels {
		value, ok := n.Labels[key]
		text = append(text, value...)
		text = append(text, 0)
		if !ok {
			text = append(text, '-', 0) // absent is not empty
		}
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			text = append(text, t.Key...)
			text = append(text, '=')
			text = append(text, t.Value...)
			text = append(text, ':')
			text = append(text, t.Effect...)
			text = append(text, 0)
		}
	}
	if r.readName {
		text = append(append(text, 0), n.Name...)
	}
	return text
}
