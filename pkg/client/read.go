package client

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Read reads what a reference names, of a kind with this mapping. It returns no object if there is none of that name.
// Objects of a kind that client-go does not know are unstructured.
func Read(ctx context.Context, r Reader, m Mapping, ref plan.Ref) (found []plan.Object, err error) {
	if ref.All {
		return readAll(ctx, r, m, ref)
	}
	if ref.Name == "" {
		return nil, errors.New("a reference without a name")
	}
	into, err := empty(ref, ref.Kind, &metav1.PartialObjectMetadata{}, &unstructured.Unstructured{})
	if err != nil {
		return nil, err
	}
	o := into.(plan.Object)
	err = r.Get(ctx, m, plan.Key{Namespace: ref.Namespace, Name: ref.Name}, o)
	switch {
	case IsAbsent(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []plan.Object{o}, nil
}

// readAll lists what a reference names.
func readAll(ctx context.Context, r Reader, m Mapping, ref plan.Ref) (found []plan.Object, err error) {
	kind := ref.Kind.GroupVersion().WithKind(ref.Kind.Kind + "List")
	list, err := empty(ref, kind, &metav1.PartialObjectMetadataList{}, &unstructured.UnstructuredList{})
	if err != nil {
		return nil, err
	}
	if err := r.List(ctx, m, ref.Namespace, metav1.ListOptions{FieldSelector: ref.Fields}, list); err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		found = append(found, item.(plan.Object))
		return nil
	})
	return found, err
}

// empty returns what an object, or a list, of that kind is read into.
func empty(ref plan.Ref, kind schema.GroupVersionKind, metadata, unknown runtime.Object) (runtime.Object, error) {
	switch {
	case ref.Metadata:
		return metadata, nil
	case scheme.Scheme.Recognizes(kind):
		return scheme.Scheme.New(kind)
	}
	unknown.GetObjectKind().SetGroupVersionKind(kind)
	return unknown, nil
}
