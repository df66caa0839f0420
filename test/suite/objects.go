package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Object is an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// clusterWide are the kinds of which objects have no namespace. The scheme does not know.
var clusterWide = sets.New("Namespace", "Node", "PersistentVolume", "VolumeAttachment", "VolumeAttributesClass", "StorageClass",
	"ClusterRole", "CertificateSigningRequest", "ServiceCIDR", "IPAddress", "StorageVersionMigration",
	"ClusterTrustBundle", "StorageVersion", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest", "ValidatingAdmissionPolicy")

// kindOf returns the kind of an object.
func kindOf(o runtime.Object) schema.GroupVersionKind {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		panic(err) // the suite has only objects that client-go knows
	}
	return kinds[0]
}

// empty returns an object with nothing in it.
func empty[T Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// request begins a request for the objects of a kind, or for one of them.
func (u *User) request(verb string, kind schema.GroupVersionKind, name string, subresource ...string) *rest.Request {
	path := []string{"apis", kind.Group, kind.Version}
	if kind.Group == "" {
		path = []string{"api", kind.Version}
	}
	if !clusterWide.Has(kind.Kind) && u.Namespace != metav1.NamespaceAll {
		path = append(path, "namespaces", u.Namespace)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	path = append(path, resource.Resource)
	if name != "" {
		path = append(append(path, name), subresource...)
	}
	return u.Client.CoreV1().RESTClient().Verb(verb).AbsPath(path...) // whose codecs are those of all kinds
}

// create creates an object in the user's namespace, if its kind has namespaces.
func create(u *User, o Object) error {
	if n, ok := o.(*corev1.Node); ok && takesPods(n) {
		return fmt.Errorf("the node %s would take pods of other users, whose runs then depend on it: taint it, as newNode does", n.Name)
	}
	kind := kindOf(o)
	if visible.Has(kind.Kind) && !u.Alone && o.GetLabels()[ofNamespace] != u.Namespace {
		return fmt.Errorf("%s %s is not marked, so no manager of test/chaos would see it", kind.Kind, o.GetName())
	}
	return u.request(http.MethodPost, kind, "").Body(o).Do(ctx()).Error()
}

// visible are the kinds of the whole cluster whose objects users mark.
var visible = clusterWide.Difference(sets.New("Namespace", "Node", "ClusterTrustBundle", "VolumeAttachment"))

// takesPods reports whether a scheduler may put any pod on a node.
func takesPods(n *corev1.Node) bool {
	return len(n.Status.Allocatable) > 0 && !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

func get[T Object](u *User, name string) (T, error) {
	o := empty[T]()
	err := u.request(http.MethodGet, kindOf(o), name).Do(ctx()).Into(o)
	return o, err
}

// list returns the objects of a kind with labels such as "app=web", in the order of their names.
func list[T Object](u *User, selector ...string) ([]T, error) {
	objects, err := u.listKind(kindOf(empty[T]()), selector...)
	typed := make([]T, len(objects))
	for i, o := range objects {
		typed[i] = o.(T)
	}
	return typed, err
}

func (u *User) listKind(kind schema.GroupVersionKind, selector ...string) (objects []Object, err error) {
	found, err := scheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	r := u.request(http.MethodGet, kind, "")
	if len(selector) > 0 {
		r = r.Param("labelSelector", strings.Join(selector, ","))
	}
	if err := r.Do(ctx()).Into(found); err != nil {
		return nil, err
	}
	err = meta.EachListItem(found, func(o runtime.Object) error {
		objects = append(objects, o.(Object))
		return nil
	})
	return objects, err
}

// metadata lists the metadata of all objects of a resource, in all namespaces.
func (u *User) metadata(resource schema.GroupVersionResource) ([]metav1.PartialObjectMetadata, error) {
	path := []string{"apis", resource.Group, resource.Version, resource.Resource}
	if resource.Group == "" {
		path = append([]string{"api"}, path[2:]...)
	}
	text, err := u.Client.CoreV1().RESTClient().Get().AbsPath(path...).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx()).Raw()
	var found metav1.PartialObjectMetadataList
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found.Items, err
}

// edit changes an object, whoever else changes it meanwhile. One that is not there makes it fail.
func edit[T Object](u *User, name string, change func(T), subresource ...string) error {
	for {
		o, err := get[T](u, name)
		if err != nil {
			return err
		}
		change(o)
		err = u.request(http.MethodPut, kindOf(o), name, subresource...).Body(o).Do(ctx()).Error()
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// apply changes an object, or creates it as it is after the same change.
func apply[T Object](u *User, fresh T, change func(T)) error {
	err := edit(u, fresh.GetName(), change)
	if !apierrors.IsNotFound(err) {
		return err
	}
	change(fresh)
	return create(u, fresh)
}

// patch sends a merge patch.
func patch[T Object](u *User, name, document string, subresource ...string) error {
	return u.request(http.MethodPatch, kindOf(empty[T]()), name, subresource...).
		SetHeader("Content-Type", string(types.MergePatchType)).Body([]byte(document)).Do(ctx()).Error()
}

// remove deletes an object, or without a name all of the user's namespace.
func remove[T Object](u *User, name string, options ...metav1.DeleteOptions) error {
	r := u.request(http.MethodDelete, kindOf(empty[T]()), name)
	for i := range options {
		r = r.Body(&options[i])
	}
	return r.Do(ctx()).Error()
}

// backdate has the API server believe that it has created an object of the user's namespace so long ago.
func backdate[T Object](u *User, name string, ago time.Duration) error {
	if u.Backdate == nil {
		return errors.New("nobody can change when this API server has created something")
	}
	resource, _ := meta.UnsafeGuessKindToResource(kindOf(empty[T]()))
	return u.Backdate(resource, u.Namespace, name, ago)
}

// propagation is the option for a deletion with a policy.
func propagation(p metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &p}
}

// atOnce is the option for a deletion without a grace period.
var atOnce = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// ignoreExists returns nil if the object is there already: an answer to an earlier try may have been lost.
func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
