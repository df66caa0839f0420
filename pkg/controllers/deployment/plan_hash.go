package deployment

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
)

// newName is the name that a ReplicaSet for the Deployment's present template gets (DEP-19).
func newName(d *appsv1.Deployment) (name, hash string) {
	return history.TemplateName(d.Name, &d.Spec.Template, d.Status.CollisionCount)
}

// sameTemplate reports whether two templates make the same pods, wherever they have the label pod-template-hash
// (DEP-10): nil equals empty, and quantities are compared by value.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	// Another image is what mostly makes the difference, and is seen quickly.
	image := func(a, b corev1.Container) bool { return a.Image == b.Image }
	if !slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, image) || !sameLabels(a.Labels, b.Labels) {
		return false
	}
	// shallow: a deep copy of every template in every reconcile is what makes the comparison expensive
	bareA, bareB := *a, *b
	bareA.Labels, bareB.Labels = nil, nil
	return equality.Semantic.DeepEqual(&bareA, &bareB)
}

// sameLabels compares labels, but for the hash.
func sameLabels(a, b map[string]string) bool {
	return containsLabels(a, b) && containsLabels(b, a)
}

// containsLabels reports whether each label of part, but the hash, is in whole.
func containsLabels(whole, part map[string]string) bool {
	for k, v := range part {
		if w, ok := whole[k]; k != appsv1.DefaultDeploymentUniqueLabelKey && (!ok || w != v) {
			return false
		}
	}
	return true
}
