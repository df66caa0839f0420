package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definitions are CustomResourceDefinitions. To create one defines nothing: Define does. But it says in which version the objects of the
// custom resource that has its name are stored. When that changes, the objects are as they were until each is written again.
var Definitions = Custom{
	GroupVersionKind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	Resource:         "customresourcedefinitions", Cluster: true, Status: true,
}

// defines reports whether objects of the kind are CustomResourceDefinitions.
func (k *Kind) defines() bool { return k.GroupVersionKind == Definitions.GroupVersionKind }

// storageVersion is the version in which objects are stored by a CustomResourceDefinition; empty if it does not say.
func storageVersion(o Object) string {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		if fields, ok := v.(map[string]any); ok && fields["storage"] == true {
			name, _ := fields["name"].(string)
			return name
		}
	}
	return ""
}

// noteStorageVersion adds the version in which objects are stored to those of the status.
func noteStorageVersion(o Object) {
	u, version := o.(*unstructured.Unstructured), storageVersion(o)
	stored, _, _ := unstructured.NestedStringSlice(u.Object, "status", "storedVersions")
	if version != "" && !slices.Contains(stored, version) {
		_ = unstructured.SetNestedStringSlice(u.Object, append(stored, version), "status", "storedVersions")
	}
}

// definitionRules are those of CustomResourceDefinitions.
func definitionRules(r rules) rules {
	r.create = func(_ *Server, o Object) { noteStorageVersion(o) }
	r.update = func(o, _ Object, subresource string) {
		if subresource == "" {
			noteStorageVersion(o)
		}
	}
	return r
}

// restore marks the objects of a custom resource whose definition says from now on that they are stored in another version: the next write
// makes a new version of each, also if it changes nothing.
func (s *Server) restore(before, after Object) {
	if before == nil || storageVersion(before) == storageVersion(after) {
		return
	}
	st := s.stores[after.GetName()]
	if st == nil {
		return
	}
	st.outdated = map[string]bool{}
	for key := range st.objects {
		st.outdated[key] = true
	}
}
