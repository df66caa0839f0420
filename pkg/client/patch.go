package client

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Difference returns the patch that turns before, as it was observed, into after. It has no data if there is nothing to
// turn, without Touch. The patch holds the uid as a precondition, so that it cannot hit an object that took the other's
// name (RS-21, RS-22).
//
// For a built-in kind it is a strategic merge patch, for which the order of a list with merge keys is no difference.
// All three kinds of objects will do then: typed, unstructured and metadata.
//
// For other kinds, whose merge keys API servers do not know, and for long lists in metadata, it is a JSON merge patch,
// which replaces lists whole. It has the resourceVersion as a precondition, so that it cannot undo what another writer
// has done to a list (GC-49).
func (m Mapping) Difference(before, after plan.Object, o WriteOptions) (Patch, error) {
	oldParts, newParts := differingParts(before, after)
	from, err := content(m.GroupVersionKind, oldParts)
	if err != nil {
		return Patch{}, err
	}
	to, err := content(m.GroupVersionKind, newParts)
	if err != nil {
		return Patch{}, err
	}
	kind, fields, err := m.patchOf(from, to, longLists(oldParts, newParts))
	if err != nil {
		return Patch{}, fmt.Errorf("difference of two %s: %w", m.Kind, err)
	}
	if len(fields) == 0 && !o.Touch {
		return Patch{}, nil
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["uid"] = string(before.GetUID())
	if version := before.GetResourceVersion(); (o.CheckVersion || kind == types.MergePatchType) && version != "" {
		metadata["resourceVersion"] = version
	}
	return encode(m.GroupVersionKind, kind, fields)
}

// patchOf returns the patch between the fields of two objects, and its type.
func (m Mapping) patchOf(from, to map[string]any, long bool) (types.PatchType, map[string]any, error) {
	if long || !m.BuiltIn {
		patch := mergeDifference(from, to)
		if !m.BuiltIn || onlyLongLists(patch) {
			return types.MergePatchType, patch, nil
		}
	}
	patch, err := strategicDifference(m.GroupVersionKind, from, to)
	return types.StrategicMergePatchType, patch, err
}

// onlyLongLists reports whether a JSON merge patch changes nothing but finalizers and owners. A cached object may lack
// parts of others.
func onlyLongLists(patch map[string]any) bool {
	metadata, _ := patch["metadata"].(map[string]any)
	for key := range metadata {
		if key != "finalizers" && key != "ownerReferences" {
			return false
		}
	}
	return len(patch) == 1 && len(metadata) > 0
}

// longList is the length from which lists are replaced whole: to merge a strategic merge patch into a list, an API
// server takes time that grows with the square of its length: 12 s at 30,000 finalizers (test/growth).
const longList = 200

// longLists reports whether lists of metadata differ that are long. Users decide how long these are.
func longLists(before, after plan.Object) bool {
	finalizers, owners := before.GetFinalizers(), before.GetOwnerReferences()
	return len(finalizers) > longList && !slices.Equal(finalizers, after.GetFinalizers()) ||
		len(owners) > longList && !reflect.DeepEqual(owners, after.GetOwnerReferences())
}

// Applied returns the patch that applies an object by server-side apply: all of its fields, and no others, are then
// owned by the field manager. A uid in the object is a precondition, and with CheckVersion its resourceVersion, too.
func (m Mapping) Applied(o plan.Object, options WriteOptions) (Patch, error) {
	fields, err := content(m.GroupVersionKind, o)
	if err != nil {
		return Patch{}, err
	}
	fields["apiVersion"], fields["kind"] = m.GroupVersion().String(), m.Kind
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields") // apply does not allow them
		if !options.CheckVersion {
			delete(metadata, "resourceVersion")
		}
	}
	return encode(m.GroupVersionKind, types.ApplyPatchType, fields)
}

// differingParts returns copies of two objects without the fields that are equal in both, so that these need not be
// encoded and compared as maps. Objects of different types, and those without typed fields, are returned as they are.
func differingParts(before, after plan.Object) (oldParts, newParts plan.Object) {
	_, untyped := before.(runtime.Unstructured)
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	if untyped || a.Type() != b.Type() || a.Kind() != reflect.Pointer {
		return before, after
	}
	x, y := reflect.New(a.Type().Elem()), reflect.New(b.Type().Elem())
	x.Elem().Set(a.Elem())
	y.Elem().Set(b.Elem())
	clearEqual(x.Elem(), y.Elem())
	return x.Interface().(plan.Object), y.Interface().(plan.Object)
}

// clearEqual clears the fields that are equal in two structs. What the fields point to stays as it is.
func clearEqual(a, b reflect.Value) {
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		if !x.CanSet() || x.IsZero() && y.IsZero() {
			continue
		}
		_, encodesItself := x.Addr().Interface().(stdjson.Marshaler)
		switch {
		case x.Kind() == reflect.Struct && !encodesItself:
			clearEqual(x, y)
		case reflect.DeepEqual(x.Interface(), y.Interface()):
			x.SetZero()
			y.SetZero()
		}
	}
}

// content returns the fields of an object, which the caller may change.
func content(kind schema.GroupVersionKind, o plan.Object) (fields map[string]any, err error) {
	if u, ok := o.(runtime.Unstructured); ok { // what the converter would return is the object's own
		var data []byte
		if data, err = json.Marshal(u.UnstructuredContent()); err == nil {
			err = json.Unmarshal(data, &fields)
		}
	} else {
		fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind.Kind, err)
	}
	return fields, nil
}

// encode makes a patch of fields.
func encode(kind schema.GroupVersionKind, of types.PatchType, fields map[string]any) (Patch, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return Patch{}, fmt.Errorf("encode a patch of %s: %w", kind.Kind, err)
	}
	return Patch{Type: of, Data: data}, nil
}

// strategicDifference is the difference as a strategic merge patch, which knows by the Go type which lists
// are merged by key.
func strategicDifference(kind schema.GroupVersionKind, from, to map[string]any) (map[string]any, error) {
	example, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(example)
	if err != nil {
		return nil, err
	}
	keepEmptied(from, to)
	patch, err := strategicpatch.CreateTwoWayMergeMapPatchUsingLookupPatchMeta(from, to, schema)
	if err != nil {
		return nil, err
	}
	dropElementOrder(patch)
	return patch, nil
}

// keepEmptied puts an empty list, or empty labels or annotations, where to lacks what from has. Their elements are then
// deleted one by one (RS-21), and those that another writer has added meanwhile stay.
func keepEmptied(from, to map[string]any) {
	for key, value := range from {
		now := to[key] // nil: there is none, or it is null
		switch value := value.(type) {
		case []any:
			if now == nil {
				to[key] = []any{}
			}
		case map[string]any:
			if now == nil && (key == "labels" || key == "annotations") {
				to[key] = map[string]any{}
			} else if inner, ok := now.(map[string]any); ok {
				keepEmptied(value, inner)
			}
		}
	}
}

// dropElementOrder removes the list-order directives of a strategic merge patch: no list that controllers patch is
// ordered, and a directive would name elements that another writer may have removed meanwhile.
func dropElementOrder(patch map[string]any) {
	for key, value := range patch {
		switch value := value.(type) {
		case map[string]any:
			before := len(value)
			if dropElementOrder(value); len(value) == 0 && before > 0 {
				delete(patch, key)
			}
		case []any:
			before := len(value)
			value = slices.DeleteFunc(value, onlyOrdered)
			if patch[key] = value; strings.HasPrefix(key, "$setElementOrder/") || len(value) == 0 && before > 0 {
				delete(patch, key)
			}
		}
	}
}

// onlyOrdered removes the directives of an element, and reports whether it had some and has nothing but its merge key
// left.
func onlyOrdered(element any) bool {
	fields, ok := element.(map[string]any)
	if !ok {
		return false
	}
	before := len(fields)
	dropElementOrder(fields)
	return len(fields) < before && len(fields) == 1
}

// mergeDifference returns the JSON merge patch (RFC 7386) that turns one object into the other.
func mergeDifference(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range to {
		old, had := from[key]
		oldFields, both := old.(map[string]any)
		fields, ok := value.(map[string]any)
		if both && ok {
			if inner := mergeDifference(oldFields, fields); len(inner) > 0 {
				patch[key] = inner
			}
		} else if !had || !reflect.DeepEqual(old, value) {
			patch[key] = value
		}
	}
	for key := range from {
		if _, ok := to[key]; !ok {
			patch[key] = nil
		}
	}
	return patch
}
