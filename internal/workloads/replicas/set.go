package replicas

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Set is a view of an object that asks for a number of pods: a ReplicaSet, or a ReplicationController. What it shows
// belongs to the object.
type Set struct {
	Object plan.Object
	Kind   schema.GroupVersionKind
	*metav1.ObjectMeta
	Spec   *appsv1.ReplicaSetSpec
	Status *appsv1.ReplicaSetStatus
}

// storedSet is a Set in JSON: its object, and of which kind that is.
type storedSet struct {
	Kind   string
	Object json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (s *Set) MarshalJSON() ([]byte, error) {
	object, err := json.Marshal(s.Object)
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedSet{s.Kind.Kind, object})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Set) UnmarshalJSON(data []byte) error {
	var stored storedSet
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	switch stored.Kind {
	case "ReplicaSet":
		o := &appsv1.ReplicaSet{}
		if err := json.Unmarshal(stored.Object, o); err != nil {
			return err
		}
		*s = *OfReplicaSet(o)
	case "ReplicationController":
		o := &corev1.ReplicationController{}
		if err := json.Unmarshal(stored.Object, o); err != nil {
			return err
		}
		*s = *OfReplicationController(o)
	default:
		return fmt.Errorf("no set is of kind %q", stored.Kind)
	}
	return nil
}

// OfReplicaSet returns the view of a ReplicaSet, nil for nil.
func OfReplicaSet(o *appsv1.ReplicaSet) *Set {
	if o == nil {
		return nil
	}
	return &Set{o, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), &o.ObjectMeta, &o.Spec, &o.Status}
}

// OfReplicationController returns the view of a ReplicationController, nil for nil. Its selector is a plain map of
// labels (RC-10), and its template may be missing (RC-11).
func OfReplicationController(o *corev1.ReplicationController) *Set {
	if o == nil {
		return nil
	}
	return &Set{
		Object: o, Kind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), ObjectMeta: &o.ObjectMeta,
		Spec: &appsv1.ReplicaSetSpec{
			Replicas:        o.Spec.Replicas,
			MinReadySeconds: o.Spec.MinReadySeconds,
			Selector:        &metav1.LabelSelector{MatchLabels: o.Spec.Selector},
			Template:        ptr.Deref(o.Spec.Template, corev1.PodTemplateSpec{}),
		},
		Status: &appsv1.ReplicaSetStatus{
			Replicas:             o.Status.Replicas,
			FullyLabeledReplicas: o.Status.FullyLabeledReplicas,
			ReadyReplicas:        o.Status.ReadyReplicas,
			AvailableReplicas:    o.Status.AvailableReplicas,
			ObservedGeneration:   o.Status.ObservedGeneration,
			Conditions:           conditionsOf(o.Status.Conditions),
		},
	}
}

// withStatus returns a copy of the set's object with another status. All other parts still belong to the object.
func (s *Set) withStatus(status appsv1.ReplicaSetStatus) plan.Object {
	switch o := s.Object.(type) {
	case *corev1.ReplicationController:
		after := *o
		after.Status = corev1.ReplicationControllerStatus{ // there is no terminatingReplicas (RC-14)
			Replicas:             status.Replicas,
			FullyLabeledReplicas: status.FullyLabeledReplicas,
			ReadyReplicas:        status.ReadyReplicas,
			AvailableReplicas:    status.AvailableReplicas,
			ObservedGeneration:   status.ObservedGeneration,
		}
		for _, c := range status.Conditions {
			after.Status.Conditions = append(after.Status.Conditions, corev1.ReplicationControllerCondition{
				Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			})
		}
		return &after
	case *appsv1.ReplicaSet:
		after := *o
		after.Status = status
		return &after
	}
	return s.Object // not reached: there are no other views
}

// conditionsOf returns the conditions of a ReplicationController as a ReplicaSet has them.
func conditionsOf(conditions []corev1.ReplicationControllerCondition) (all []appsv1.ReplicaSetCondition) {
	for _, c := range conditions {
		all = append(all, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return all
}
