package statefulset

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// podName is the name of the pod with that ordinal (STS-13).
func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

// splitName takes the name of a pod apart: what stands before the last dash, and the ordinal after it. Not ok: the
// name is none that podName returns (STS-10, STS-11, STS-103).
func splitName(name string) (set string, ordinal int, ok bool) {
	dash := strings.LastIndex(name, "-")
	if dash <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != name[dash+1:] || n < 0 {
		return "", 0, false
	}
	return name[:dash], int(n), true
}

// claimName is the name of the claim that the pod with that ordinal has for a template (STS-20).
func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return template.Name + "-" + podName(set, ordinal)
}

// ordinalOfClaim returns the wanted ordinal whose pod has a claim of that name. It is not ok if there is none.
func ordinalOfClaim(set *appsv1.StatefulSet, claim string) (ordinal int, ok bool) {
	for i := range set.Spec.VolumeClaimTemplates {
		pod, prefixed := strings.CutPrefix(claim, set.Spec.VolumeClaimTemplates[i].Name+"-")
		name, ordinal, named := splitName(pod)
		if prefixed && named && name == set.Name && ordinal >= start(set) && ordinal < end(set) {
			return ordinal, true
		}
	}
	return 0, false
}

// replicas is the wanted number of pods. The server defaults it to 1 (STS-84).
func replicas(set *appsv1.StatefulSet) int { return int(max(0, ptr.Deref(set.Spec.Replicas, 1))) }

// start is the lowest ordinal (STS-12).
func start(set *appsv1.StatefulSet) int {
	return int(max(0, ptr.Deref(set.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start))
}

// end is the ordinal after the highest one that is wanted (STS-12).
func end(set *appsv1.StatefulSet) int {
	return min(start(set)+replicas(set), math.MaxInt32)
}

// newPod makes the pod with that ordinal of a template, which is that of the revision (STS-13).
func newPod(set *appsv1.StatefulSet, ordinal int, template *corev1.PodTemplateSpec, revision string) *corev1.Pod {
	template = template.DeepCopy()
	name := podName(set, ordinal)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			Name:            name,
			GenerateName:    set.Name + "-",
			Labels:          withLabels(template.Labels, identityLabels(set, ordinal)),
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind())},
		},
		Spec: template.Spec,
	}
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname = name
	pod.Spec.Subdomain = set.Spec.ServiceName
	pod.Spec.Volumes = volumes(set, ordinal, template.Spec.Volumes)
	return pod
}

// identityLabels are the labels that distinguish a pod from the others of its set.
func identityLabels(set *appsv1.StatefulSet, ordinal int) map[string]string {
	return map[string]string{
		appsv1.StatefulSetPodNameLabel: podName(set, ordinal),
		appsv1.PodIndexLabel:           strconv.Itoa(ordinal),
	}
}

// volumes are those of the claim templates, in their order, and those of the pod template that have other names
// (STS-14).
func volumes(set *appsv1.StatefulSet, ordinal int, others []corev1.Volume) (all []corev1.Volume) {
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, template, ordinal)}
		all = append(all,
			corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}})
	}
	for _, v := range others {
		claimed := func(template corev1.PersistentVolumeClaim) bool { return template.Name == v.Name }
		if !slices.ContainsFunc(set.Spec.VolumeClaimTemplates, claimed) {
			all = append(all, v)
		}
	}
	return all
}

// newClaim makes the claim for one of the set's templates (STS-20). If the retention policy has it deleted with the
// set, it says so from the beginning (STS-24).
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim,
	ordinal int) *corev1.PersistentVolumeClaim {
	template = template.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   set.Namespace,
			Name:        claimName(set, template, ordinal),
			Labels:      template.Labels,
			Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
	if set.Spec.Selector != nil {
		claim.Labels = withLabels(template.Labels, set.Spec.Selector.MatchLabels)
	}
	if owner := claimOwner(set, nil); owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return claim
}

// withLabels returns labels with more added, which win.
func withLabels(labels, more map[string]string) map[string]string {
	all := make(map[string]string, len(labels)+len(more)+1)
	maps.Copy(all, labels)
	maps.Copy(all, more)
	return all
}
