package storageversiongc

import (
	"slices"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// agree writes into a StorageVersion in which version all API servers store objects, or that they do not agree (SVG-3).
func agree(now time.Time, v *apiserverinternalv1alpha1.StorageVersion) {
	before := v.Status.CommonEncodingVersion
	v.Status.CommonEncodingVersion = common(v.Status.StorageVersions)
	condition := apiserverinternalv1alpha1.StorageVersionCondition{
		Type:   apiserverinternalv1alpha1.AllEncodingVersionsEqual,
		Status: apiserverinternalv1alpha1.ConditionFalse, Reason: "CommonEncodingVersionUnset",
		Message:            "Common encoding version unset",
		ObservedGeneration: v.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if v.Status.CommonEncodingVersion != nil {
		condition.Status, condition.Reason = apiserverinternalv1alpha1.ConditionTrue, "CommonEncodingVersionSet"
		condition.Message = "Common encoding version set"
	}
	i := slices.IndexFunc(v.Status.Conditions, func(c apiserverinternalv1alpha1.StorageVersionCondition) bool {
		return c.Type == condition.Type
	})
	if i < 0 {
		v.Status.Conditions = append(v.Status.Conditions, condition)
		return
	}
	old := v.Status.Conditions[i]
	if old.Status == condition.Status && ptr.Equal(before, v.Status.CommonEncodingVersion) {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	v.Status.Conditions[i] = condition
}

// common is the version in which all API servers store objects; nil if they do not agree.
func common(entries []apiserverinternalv1alpha1.ServerStorageVersion) *string {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].EncodingVersion
	for _, e := range entries {
		if e.EncodingVersion != first {
			return nil
		}
	}
	return &first
}
