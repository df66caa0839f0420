package client

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Mapping says how objects of one kind are addressed and changed. Two mappings of one kind are equal.
type Mapping struct {
	schema.GroupVersionKind
	Resource   string // its name in paths, as in "deployments"
	Namespaced bool
	BuiltIn    bool // client-go's scheme has the kind
}

// GroupVersionResource returns the resource with its group and version.
func (m Mapping) GroupVersionResource() schema.GroupVersionResource {
	return m.GroupVersion().WithResource(m.Resource)
}

// GroupResource returns the resource with its group.
func (m Mapping) GroupResource() schema.GroupResource {
	return m.GroupVersionResource().GroupResource()
}

// BuiltIn returns the mapping of a kind that client-go's scheme has. It makes no request.
func BuiltIn(kind schema.GroupVersionKind) (m Mapping, ok bool) {
	if !scheme.Scheme.Recognizes(kind) {
		return Mapping{}, false
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind) // a test proves the guess right for all of them
	return Mapping{
		GroupVersionKind: kind,
		Resource:         resource.Resource,
		Namespaced:       !slices.Contains(clusterScoped[kind.Group], kind.Kind),
		BuiltIn:          true,
	}, true
}

// MappingFor returns the mapping of a type that client-go's scheme has, such as MappingFor[*corev1.Pod](). Of any
// other type it panics.
func MappingFor[T plan.Object]() Mapping {
	m, _ := BuiltIn(KindFor[T]())
	return m
}

// KindFor returns the kind of a type that client-go's scheme has, such as KindFor[*corev1.Pod](). Of any other type
// it panics.
func KindFor[T plan.Object]() schema.GroupVersionKind {
	kinds, _, err := scheme.Scheme.ObjectKinds(reflect.New(reflect.TypeFor[T]().Elem()).Interface().(runtime.Object))
	if err != nil {
		panic(err)
	}
	return kinds[0]
}

// KindOf returns the kind of an object: of a typed one by client-go's scheme, and of unstructured content, of
// metadata and of types that client-go does not know as the object itself says.
func KindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	switch o.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		kind := o.GetObjectKind().GroupVersionKind()
		if kind.Kind == "" || kind.Version == "" {
			return kind, fmt.Errorf("%T without apiVersion and kind", o)
		}
		return kind, nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if own := o.GetObjectKind().GroupVersionKind(); err != nil && own.Kind != "" && own.Version != "" {
		return own, nil
	}
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("kind of %T: %w", o, err)
	}
	return kinds[0], nil
}

// clusterScoped are the built-in kinds that no namespace has, by group. The scheme does not have that; a test compares
// them with client-go's typed clients.
var clusterScoped = map[string][]string{
	"": {"ComponentStatus", "Namespace", "Node", "PersistentVolume"},
	"admissionregistration.k8s.io": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
		"MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"},
	"authentication.k8s.io":        {"SelfSubjectReview", "TokenReview"},
	"authorization.k8s.io":         {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"internal.apiserver.k8s.io":    {"StorageVersion"},
	"networking.k8s.io":            {"IPAddress", "IngressClass", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io": {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment",
		"VolumeAttributesClass"},
	"storagemigration.k8s.io": {"StorageVersionMigration"},
}
