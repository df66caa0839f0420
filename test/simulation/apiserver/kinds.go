package apiserver

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// Kind says what the server knows of a resource.
type Kind struct {
	schema.GroupVersionKind
	Resource string // in paths: the plural
	Cluster  bool   // objects have no namespace

	rules
	mirrors bool         // see Custom
	key     string       // by which the server finds the kind: the plural, with the group if it is a custom one
	object  reflect.Type // the struct; nil for custom resources, whose objects are unstructured
	list    reflect.Type
	content []int // fields of the struct that are neither type, metadata nor status
	status  int   // the field of the status, -1 if there is none
	subs    map[string]subresource
}

func (k *Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

func (k *Kind) custom() bool { return k.object == nil }

// hasStatus reports whether there is the subresource status.
func (k *Kind) hasStatus() bool { return k.status >= 0 }

// New returns an empty object.
func (k *Kind) New() Object {
	if k.custom() {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		setType(k, o)
		return o
	}
	return reflect.New(k.object).Interface().(Object)
}

func (k *Kind) newList() runtime.Object {
	if k.custom() {
		return &unstructured.UnstructuredList{Object: map[string]any{}}
	}
	return reflect.New(k.list).Interface().(runtime.Object)
}

// setType writes the type into an object, as the encoder would.
func setType(k *Kind, o Object) { o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind) }

func part(o Object, i int) reflect.Value { return reflect.ValueOf(o).Elem().Field(i) }

// copyStatus gives an object the status of another one.
func (k *Kind) copyStatus(to, from Object) {
	if !k.custom() {
		part(to, k.status).Set(part(from, k.status))
		return
	}
	copyFields(to, from, func(name string) bool { return name == "status" })
}

// copyContent gives an object everything of another one but its metadata and status.
func (k *Kind) copyContent(to, from Object) {
	if k.custom() {
		copyFields(to, from, k.isContent)
		return
	}
	for _, i := range k.content {
		part(to, i).Set(part(from, i))
	}
}

// sameContent compares everything but metadata and status.
func (k *Kind) sameContent(a, b Object) bool {
	if k.custom() {
		x, y := k.New(), k.New()
		k.copyContent(x, a)
		k.copyContent(y, b)
		return equality.Semantic.DeepEqual(x, y)
	}
	for _, i := range k.content {
		if !equality.Semantic.DeepEqual(part(a, i).Addr().Interface(), part(b, i).Addr().Interface()) {
			return false
		}
	}
	return true
}

// isContent reports whether the field of a custom resource counts for its generation.
func (k *Kind) isContent(name string) bool {
	return name != "apiVersion" && name != "kind" && name != "metadata" && (name != "status" || !k.hasStatus())
}

// copyFields takes the fields that are chosen from another custom resource.
func copyFields(to, from Object, chosen func(string) bool) {
	into, of := to.(*unstructured.Unstructured).Object, from.(*unstructured.Unstructured).Object
	for name := range into {
		if chosen(name) {
			delete(into, name)
		}
	}
	for name, value := range of {
		if chosen(name) {
			into[name] = runtime.DeepCopyJSONValue(value)
		}
	}
}

// stable are the versions that are served by default.
var stable = regexp.MustCompile(`^v[0-9]+$`)

// builtIn are the kinds of client-go's scheme that a server stores, each in the version that its group prefers.
var builtIn = sync.OnceValue(func() []*Kind {
	types := scheme.Scheme.AllKnownTypes()
	preferred := map[schema.GroupKind]*Kind{}
	special := specialRules()
	for gvk, object := range types {
		list, stored := types[gvk.GroupVersion().WithKind(gvk.Kind+"List")]
		_, named := object.FieldByName("ObjectMeta")
		if !stored || !named || !stable.MatchString(gvk.Version) && !servedEarly.Has(gvk) || notServed.Has(gvk.GroupKind()) {
			continue
		}
		if k := preferred[gvk.GroupKind()]; k == nil || version.CompareKubeAwareVersionStrings(gvk.Version, k.Version) > 0 {
			preferred[gvk.GroupKind()] = newKind(gvk, object, list, special)
		}
	}
	all := make([]*Kind, 0, len(preferred))
	for _, k := range preferred {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return all
})

func newKind(gvk schema.GroupVersionKind, object, list reflect.Type, special map[string]rules) *Kind {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	k := &Kind{
		GroupVersionKind: gvk, Resource: plural.Resource, Cluster: clusterScoped.Has(gvk.Kind), key: plural.Resource,
		rules: special[plural.Resource], object: object, list: list, status: -1,
	}
	for i := range object.NumField() {
		switch object.Field(i).Name {
		case "TypeMeta", "ObjectMeta":
		case "Status":
			k.status = i
		default:
			k.content = append(k.content, i)
		}
	}
	k.subs = subresourcesOf(k)
	return k
}

// Custom describes a custom resource, as a CustomResourceDefinition does. Its objects are unstructured.
type Custom struct {
	schema.GroupVersionKind
	Resource string // the plural; the server calls it RESOURCE.GROUP
	Cluster  bool   // objects have no namespace
	Status   bool   // there is the subresource status
	Mirrors  bool   // objects keep the uids that they are created with, as an aggregated API server may have it
}

func (c Custom) kind() *Kind {
	k := &Kind{
		GroupVersionKind: c.GroupVersionKind, Resource: c.Resource, Cluster: c.Cluster, key: c.Resource + "." + c.Group, status: -1,
		mirrors: c.Mirrors,
		rules:   rules{generations: true, versioned: true, puttable: false},
	}
	if c.Status {
		k.status = 0
	}
	if k.defines() {
		k.rules = definitionRules(k.rules)
	}
	k.subs = subresourcesOf(k)
	return k
}

// Define adds a custom resource. It must be called before clients use the server.
func (s *Server) Define(c Custom) { s.add(c.kind()) }

func (s *Server) add(k *Kind) {
	st := &store{Kind: k, objects: map[string]Object{}}
	s.stores[k.key] = st
	s.paths[k.GroupVersion().WithResource(k.Resource)] = st
	if !k.custom() {
		s.types[k.object] = st
	}
	s.kinds[k.GroupVersionKind] = st
}

// storeOf returns the store of objects like this one.
func (s *Server) storeOf(o runtime.Object) *store {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return s.kinds[u.GroupVersionKind()]
	}
	return s.types[reflect.TypeOf(o).Elem()]
}
