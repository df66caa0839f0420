package apiserver

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateWorkload checks what Deployments and ReplicaSets have in common.
func validateWorkload(replicas *int32, selector, before *metav1.LabelSelector, template *corev1.PodTemplateSpec) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if n := ptr.Deref(replicas, 0); n < 0 {
		errs = append(errs, field.Invalid(path.Child("replicas"), n, "must be greater than or equal to 0"))
	}
	if selector == nil {
		return append(errs, field.Required(path.Child("selector"), ""),
			field.Invalid(path.Child("template", "metadata", "labels"), maps.Clone(template.Labels),
				"`selector` does not match template `labels`"))
	}
	errs = append(errs, validation.ValidateLabelSelector(selector, validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), selector, "empty selector is invalid"))
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err == nil && !parsed.Empty() && !parsed.Matches(labels.Set(template.Labels)) {
		errs = append(errs,
			field.Invalid(path.Child("template", "metadata", "labels"), maps.Clone(template.Labels),
				"`selector` does not match template `labels`"))
	}
	if before != nil && !equality.Semantic.DeepEqual(selector, before) {
		errs = append(errs, field.Invalid(path.Child("selector"), selector, "field is immutable"))
	}
	if len(template.Spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("template", "spec", "containers"), ""))
	}
	return errs
}

func validateReplicaSet(rs, old *appsv1.ReplicaSet) field.ErrorList {
	var before *metav1.LabelSelector
	if old != nil {
		before = old.Spec.Selector
	}
	return validateWorkload(rs.Spec.Replicas, rs.Spec.Selector, before, &rs.Spec.Template)
}

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	var before *metav1.LabelSelector
	if old != nil {
		before = old.Spec.Selector
	}
	errs := validateWorkload(d.Spec.Replicas, d.Spec.Selector, before, &d.Spec.Template)
	path := field.NewPath("spec")
	if d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds <= d.Spec.MinReadySeconds {
		errs = append(errs,
			field.Invalid(path.Child("progressDeadlineSeconds"), *d.Spec.ProgressDeadlineSeconds, "must be greater than minReadySeconds"))
	}
	rolling := d.Spec.Strategy.RollingUpdate
	switch {
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && rolling != nil:
		errs = append(errs,
			field.Forbidden(path.Child("strategy", "rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"))
	case rolling != nil && zero(rolling.MaxSurge) && zero(rolling.MaxUnavailable):
		errs = append(errs,
			field.Invalid(path.Child("strategy", "rollingUpdate", "maxUnavailable"), rolling.MaxUnavailable,
				"may not be 0 when `maxSurge` is 0"))
	}
	return errs
}

func zero(v *intstr.IntOrString) bool {
	return v == nil || v.Type == intstr.Int && v.IntVal == 0 || v.Type == intstr.String && v.StrVal == "0%"
}

// validateNode lets a node get its ranges once: nobody may change them after that, or add to them.
func validateNode(n, old *corev1.Node) field.ErrorList {
	if old == nil || len(old.Spec.PodCIDRs) == 0 || equality.Semantic.DeepEqual(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "podCIDRs"), "may not be changed once it is set")}
}
