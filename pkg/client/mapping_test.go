package client

import (
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// TestBuiltInMappings compares them with client-go's typed clients: Pods(namespace) has methods for *corev1.Pod, so the
// resource of the kind Pod is "pods", and it is namespaced.
func TestBuiltInMappings(t *testing.T) {
	seen := 0
	covered := map[schema.GroupKind]bool{}
	for _, group := range methods(reflect.TypeFor[kubernetes.Interface]()) {
		if group.Type.NumIn() != 0 || group.Name == "Discovery" {
			continue
		}
		for _, getter := range methods(group.Type.Out(0)) {
			if getter.Name == "RESTClient" {
				continue
			}
			kind, ok := kindOfClient(t, getter.Type.Out(0))
			if !ok {
				continue
			}
			seen++
			m, ok := BuiltIn(kind)
			want := Mapping{kind, strings.ToLower(getter.Name), getter.Type.NumIn() == 1, true}
			if !ok || m != want {
				t.Errorf("%s.%s: %s, namespaced %v; want %s, %v", group.Name, getter.Name, m.Resource, m.Namespaced, want.Resource,
					want.Namespaced)
			}
			covered[kind.GroupKind()] = true
		}
	}
	if seen < 120 {
		t.Errorf("only %d clients seen", seen)
	}
	for group, kinds := range clusterScoped {
		for _, kind := range kinds {
			if !covered[schema.GroupKind{Group: group, Kind: kind}] {
				t.Errorf("client-go has no client for %s.%s", kind, group)
			}
		}
	}
}

// kindOfClient returns the kind that a typed client creates or gets. There is none for clients with actions of their own only.
func kindOfClient(t *testing.T, client reflect.Type) (schema.GroupVersionKind, bool) {
	for _, name := range []string{"Create", "Get"} {
		m, ok := client.MethodByName(name)
		if !ok {
			continue
		}
		object, ok := reflect.New(m.Type.Out(0).Elem()).Interface().(runtime.Object)
		if !ok {
			continue
		}
		kind, err := KindOf(object)
		if err != nil {
			t.Fatal(err)
		}
		return kind, true
	}
	return schema.GroupVersionKind{}, false
}

func methods(t reflect.Type) (all []reflect.Method) {
	for i := range t.NumMethod() {
		all = append(all, t.Method(i))
	}
	return all
}

func TestKindOf(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	anything := &unstructured.Unstructured{}
	anything.SetGroupVersionKind(widget)
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(widget)
	for name, c := range map[string]struct {
		object runtime.Object
		want   schema.GroupVersionKind // empty: an error
	}{
		"typed": {&appsv1.Deployment{}, appsv1.SchemeGroupVersion.WithKind("Deployment")},
		"typed, says another kind": {&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}},
			corev1.SchemeGroupVersion.WithKind("Pod")},
		"unstructured":         {anything, widget},
		"metadata":             {metadata, widget},
		"metadata of nothing":  {&metav1.PartialObjectMetadata{}, schema.GroupVersionKind{}},
		"unstructured nothing": {&unstructured.Unstructured{}, schema.GroupVersionKind{}},
		"a type of nobody's":   {&stranger{}, schema.GroupVersionKind{}},
	} {
		kind, err := KindOf(c.object)
		if (err == nil) != (c.want != schema.GroupVersionKind{}) || err == nil && kind != c.want {
			t.Errorf("%s: %v, %v", name, kind, err)
		}
	}
}

type stranger struct{ corev1.Pod }

func (s *stranger) DeepCopyObject() runtime.Object { return &stranger{*s.DeepCopy()} }

func TestBuiltIn(t *testing.T) {
	if m, ok := BuiltIn(corev1.SchemeGroupVersion.WithKind("Pod")); !ok || !m.BuiltIn {
		t.Errorf("pods are not built in: %v", m)
	}
	if m, ok := BuiltIn(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}); ok {
		t.Errorf("a custom kind is built in: %v", m)
	}
}

func TestMappingFor(t *testing.T) {
	want, _ := BuiltIn(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if m := MappingFor[*appsv1.Deployment](); m != want {
		t.Errorf("%+v", m)
	}
	if kind := KindFor[*corev1.Pod](); kind != corev1.SchemeGroupVersion.WithKind("Pod") {
		t.Error(kind)
	}
	defer func() {
		if recover() == nil {
			t.Error("unstructured content has a kind of its own")
		}
	}()
	KindFor[*unstructured.Unstructured]()
}
