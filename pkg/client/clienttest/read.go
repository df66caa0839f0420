package clienttest

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Get reads an object (client.Reader).
func (s *Server) Get(_ context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[m.GroupVersionKind][key]
	if o == nil {
		return notFound(m, key)
	}
	return copyInto(m, o, into)
}

// List reads what matches, in the order of namespaces and names (client.Reader). Of fields, name and namespace can
// be selected, the type of Secrets and events, and the node of pods.
func (s *Server) List(_ context.Context, m client.Mapping, namespace string, o metav1.ListOptions,
	into runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.matching(m, namespace, o)
	if err != nil {
		return err
	}
	next := ""
	if o.Limit > 0 && len(found) > int(o.Limit) {
		found = found[:o.Limit]
		next = plan.KeyOf(found[len(found)-1]).String()
	}
	items := make([]runtime.Object, 0, len(found))
	for _, o := range found {
		item, err := newItem(m, into)
		if err == nil {
			err = copyInto(m, o, item)
		}
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	about, err := meta.ListAccessor(into)
	if err != nil {
		return err
	}
	about.SetResourceVersion(s.latest())
	about.SetContinue(next)
	return meta.SetList(into, items)
}

// GetScale reads the scale of an object that has spec.replicas, status.replicas and spec.selector (client.Reader).
func (s *Server) GetScale(ctx context.Context, m client.Mapping, key plan.Key) (*autoscalingv1.Scale, error) {
	u := &unstructured.Unstructured{}
	if err := s.Get(ctx, m, key, u); err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
	}}
	wanted, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	there, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
	scale.Spec.Replicas, scale.Status.Replicas = int32(wanted), int32(there)
	if found, ok, _ := unstructured.NestedMap(u.Object, "spec", "selector"); ok {
		selector := &metav1.LabelSelector{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found, selector); err != nil {
			return nil, err
		}
		scale.Status.Selector = metav1.FormatLabelSelector(selector)
	}
	return scale, nil
}

// SubjectAccessReview answers as [Server.Authorize] says (client.Reader).
func (s *Server) SubjectAccessReview(_ context.Context,
	ask authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	s.mu.Lock()
	allowed := s.allowed
	s.mu.Unlock()
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed == nil || allowed(ask)}, nil
}

// GetRaw answers as [Server.ServeRaw] says (client.Reader).
func (s *Server) GetRaw(_ context.Context, path string, _ url.Values) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, ok := s.raw[path]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return slices.Clone(answer), nil
}

// matching returns the stored objects that match. The caller has the lock.
func (s *Server) matching(m client.Mapping, namespace string, o metav1.ListOptions) (found []plan.Object, err error) {
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	field, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range field.Requirements() {
		if !slices.Contains(selectable(m.Kind), r.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the field %s cannot be selected", r.Field))
		}
	}
	for key, one := range s.objects[m.GroupVersionKind] {
		if (namespace == "" || key.Namespace == namespace) && key.String() > o.Continue &&
			selector.Matches(labels.Set(one.GetLabels())) &&
			field.Matches(fieldsOf(key, one)) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found,
		func(a, b plan.Object) int { return cmp.Compare(plan.KeyOf(a).String(), plan.KeyOf(b).String()) })
	return found, nil
}

// selectable are the fields by which objects of a kind can be selected.
func selectable(kind string) []string {
	of := map[string][]string{"Secret": {"type"}, "Pod": {"spec.nodeName", "status.phase"},
		"ResourceSlice": {resourcev1.ResourceSliceSelectorDriver}, "Event": {"type", "reason"}}
	return append(of[kind], metav1.ObjectNameField, "metadata.namespace")
}

// fieldsOf are the values of these fields.
func fieldsOf(key plan.Key, o plan.Object) fields.Set {
	set := fields.Set{metav1.ObjectNameField: key.Name, "metadata.namespace": key.Namespace}
	switch o := o.(type) {
	case *corev1.Secret:
		set["type"] = string(o.Type)
	case *corev1.Pod:
		set["spec.nodeName"], set["status.phase"] = o.Spec.NodeName, string(o.Status.Phase)
	case *corev1.Event:
		set["type"], set["reason"] = o.Type, o.Reason
	case *resourcev1.ResourceSlice:
		set[resourcev1.ResourceSliceSelectorDriver] = o.Spec.Driver
	}
	return set
}

// newItem returns an empty object of the type that the list has.
func newItem(m client.Mapping, list runtime.Object) (plan.Object, error) {
	switch list.(type) {
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	case runtime.Unstructured:
		return &unstructured.Unstructured{}, nil
	}
	return newTyped(m)
}

// newTyped returns an empty typed object.
func newTyped(m client.Mapping) (plan.Object, error) {
	o, err := scheme.Scheme.New(m.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	typed, ok := o.(plan.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", o)
	}
	return typed, nil
}

// stored returns a copy of the object in the form in which the server keeps it.
func stored(m client.Mapping, o plan.Object) (plan.Object, error) {
	var keep plan.Object = &unstructured.Unstructured{}
	if m.BuiltIn {
		var err error
		if keep, err = newTyped(m); err != nil {
			return nil, err
		}
	}
	if err := copyInto(m, o, keep); err != nil {
		return nil, err
	}
	if m.BuiltIn {
		keep.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as clients decode them
	}
	return keep, nil
}

// copyInto copies an object into one that may be of another type.
func copyInto(m client.Mapping, from, into plan.Object) error {
	if partial, ok := into.(*metav1.PartialObjectMetadata); ok {
		*partial = *metadataOf(from)
		return nil
	}
	if reflect.TypeOf(from) == reflect.TypeOf(into) {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from.DeepCopyObject())
	if err != nil {
		return err
	}
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = content
		u.SetGroupVersionKind(m.GroupVersionKind)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}

// metadataOf returns a copy of an object's metadata.
func metadataOf(o plan.Object) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(o).DeepCopy()
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return partial
}

func notFound(m client.Mapping, key plan.Key) error {
	return apierrors.NewNotFound(m.GroupResource(), key.Name)
}
