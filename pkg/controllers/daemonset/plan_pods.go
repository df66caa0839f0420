package daemonset

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// templateGeneration is the label of pods with the number of changes of the template. The server counts them in the
// annotation [appsv1.DeprecatedTemplateGeneration] of the DaemonSet.
const templateGeneration = "pod-template-generation"

// hashLabel is the label of pods and revisions with the hash of the template.
const hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey

// kind is that of DaemonSets.
func kind() schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind("DaemonSet") }

// newPod is what the DaemonSet's template makes for a node (DS-25). The scheduler binds it (DS-26).
func newPod(d *appsv1.DaemonSet, t present, node string) *corev1.Pod {
	template := d.Spec.Template.DeepCopy()
	bind(&template.Spec, node)
	template.Spec.Tolerations = withTolerations(template.Spec.Tolerations, template.Spec.HostNetwork)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			GenerateName:    d.Name + "-",
			Labels:          podLabels(d, t),
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind())},
		},
		Spec: template.Spec,
	}
}

// podLabels are the labels of a pod of the template: two of them are the DaemonSet's own.
func podLabels(d *appsv1.DaemonSet, t present) labels.Set {
	own := maps.Clone(d.Spec.Template.Labels)
	if own == nil {
		own = map[string]string{}
	}
	own[hashLabel] = t.hash
	if t.generation != "" {
		own[templateGeneration] = t.generation
	}
	return own
}

// bind has the scheduler place a pod on a node: that takes the place of what its affinity required of nodes (DS-26).
func bind(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}
}

// withTolerations returns the tolerations of the pods of a DaemonSet (DS-27): they stay where other pods would be
// evicted from. A toleration that is the same but for its seconds gives way.
func withTolerations(given []corev1.Toleration, hostNetwork bool) []corev1.Toleration {
	all := slices.Clone(given)
	add := func(key string, effect corev1.TaintEffect) {
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		i := slices.IndexFunc(all, func(other corev1.Toleration) bool { return other.MatchToleration(&t) })
		if i < 0 {
			all = append(all, t)
		} else {
			all[i] = t
		}
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if hostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return all
}

// gone reports whether nothing is left of a pod but its object, which is being deleted (DS-16).
func gone(p *corev1.Pod) bool { return podutil.Finished(p) && p.DeletionTimestamp != nil }

// byRank orders the pods of a node: of several, the first stays (DS-32).
func byRank(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(unassigned(a), unassigned(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// unassigned puts pods that have no node yet after those that have one.
func unassigned(p *corev1.Pod) int {
	if p.Spec.NodeName == "" {
		return 1
	}
	return 0
}
