package scale

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Workload is what all kinds of workloads have in common.
type Workload struct {
	Object   plan.Object
	Replicas int32 // that it is meant to have
	Observed int32 // that it had when its status was written
	Selector *metav1.LabelSelector
	Template *corev1.PodTemplateSpec // nil for none
}

// Of returns the view of an object. It is not ok if the object is of another kind.
func Of(o plan.Object) (w Workload, ok bool) {
	var replicas *int32
	switch o := o.(type) {
	case *appsv1.Deployment:
		replicas, w = o.Spec.Replicas,
			Workload{Observed: o.Status.Replicas, Selector: o.Spec.Selector, Template: &o.Spec.Template}
	case *appsv1.ReplicaSet:
		replicas, w = o.Spec.Replicas,
			Workload{Observed: o.Status.Replicas, Selector: o.Spec.Selector, Template: &o.Spec.Template}
	case *appsv1.StatefulSet:
		replicas, w = o.Spec.Replicas,
			Workload{Observed: o.Status.Replicas, Selector: o.Spec.Selector, Template: &o.Spec.Template}
	case *corev1.ReplicationController:
		selector := &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		replicas, w = o.Spec.Replicas,
			Workload{Observed: o.Status.Replicas, Selector: selector, Template: o.Spec.Template}
	default:
		return w, false
	}
	w.Object, w.Replicas = o, ptr.Deref(replicas, 1)
	return w, true
}
