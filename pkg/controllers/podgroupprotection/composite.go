package podgroupprotection

import (
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// compositeKind() is that of CompositePodGroups, which API servers have in this version since 1.38.
func compositeKind() schema.GroupVersionKind {
	return schedulingv1beta1.SchemeGroupVersion.WithKind("CompositePodGroup")
}

// compositePodGroup is a CompositePodGroup. k8s.io/api has the version since 0.38, with the same fields as the older
// one that it has had before.
type compositePodGroup struct {
	schedulingv1alpha3.CompositePodGroup
}

// DeepCopyObject implements [runtime.Object].
func (c *compositePodGroup) DeepCopyObject() runtime.Object {
	return &compositePodGroup{*c.DeepCopy()}
}

// compositePodGroupList is a list of them.
type compositePodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []compositePodGroup `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (l *compositePodGroupList) DeepCopyObject() runtime.Object {
	out := &compositePodGroupList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, c := range l.Items {
		out.Items = append(out.Items, compositePodGroup{*c.DeepCopy()})
	}
	return out
}

// scheme has the kinds that client-go does not.
func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	kind := compositeKind()
	s.AddKnownTypeWithName(kind, &compositePodGroup{})
	s.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &compositePodGroupList{})
	return s
}
