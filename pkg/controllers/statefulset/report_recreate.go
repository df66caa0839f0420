package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions are those that are there, with the one that says how a set does that recreates its pods (STS-64, STS-76).
func (r *rollout) conditions(status appsv1.StatefulSetStatus) []appsv1.StatefulSetCondition {
	all := r.Set.Status.Conditions
	if !recreates(r.Set) || r.Set.DeletionTimestamp != nil {
		return all
	}
	at := slices.IndexFunc(all,
		func(c appsv1.StatefulSetCondition) bool { return c.Type == appsv1.StatefulSetProgressing })
	c := appsv1.StatefulSetCondition{Type: appsv1.StatefulSetProgressing, Status: corev1.ConditionTrue,
		Reason: "RecreateInProgress"}
	begun := at >= 0 && all[at].Status == corev1.ConditionTrue
	switch {
	case r.complete(status):
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "RecreateCompleted", "All pods recreated successfully"
	case len(r.earlier()) > 0:
		c.Message = "Deleting old revision pods"
	case begun || status.CurrentRevision != status.UpdateRevision:
		c.Message = "Waiting for new-revision pods to be created"
	default: // it gets its first pods, or is scaled
		return all
	}
	c.LastTransitionTime = metav1.NewTime(r.now)
	if at < 0 {
		return append(slices.Clone(all), c)
	}
	if all[at].Status == c.Status {
		c.LastTransitionTime = all[at].LastTransitionTime
	}
	all = slices.Clone(all)
	all[at] = c
	return all
}
