package explain

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	leftOut   = "left out"
	deepest   = 12     // values in values
	mostItems = 100    // of a list in a decision
	gzipped   = "H4sI" // how what gzip has compressed begins in base64
)

// text returns a text as JSON.
func text(s string) json.RawMessage {
	data, _ := json.Marshal(clip(s)) // a string can always be encoded
	return data
}

// masked returns a value as JSON, without what may be a credential.
func masked(v any) json.RawMessage {
	data, err := json.Marshal(v)
	switch {
	case err != nil:
		return text(leftOut + ": " + err.Error())
	case len(data) > mostBytes:
		return text(fmt.Sprintf("%s: %d bytes", leftOut, len(data)))
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // large numbers stay what they are
	if err := decoder.Decode(&tree); err != nil {
		return text(leftOut + ": " + err.Error())
	}
	mask(tree)
	if data, err = json.Marshal(tree); err != nil {
		return text(leftOut + ": " + err.Error())
	}
	return data
}

// mask omits in place what may be a credential, wherever in an object it is: the data of Secrets, ConfigMaps and
// ControllerRevisions, what drivers of volumes are given as options, and what containers are given as environment
// variables, arguments and headers of probes. The record of kubectl apply has all of that, and so have those of other
// tools in annotations. What is left can be read into an object again.
func mask(tree any) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			mask(item)
		}
	case map[string]any:
		for name, value := range tree {
			list, isList := value.([]any)
			fields, isMap := value.(map[string]any)
			switch lower := strings.ToLower(name); {
			case value == nil:
			case lower == "data", lower == "binarydata", lower == "stringdata":
				tree[name] = emptied(value)
			case isMap && (lower == "volumeattributes" || lower == "options"): // of volumes by CSI, and of flexVolumes
				tree[name] = emptied(value)
			case lower == "kubectl.kubernetes.io/last-applied-configuration":
				tree[name] = leftOut
			case isList && (lower == "command" || lower == "args"):
				tree[name] = []any{leftOut}
			case isMap && lower == "annotations":
				for key, value := range fields {
					if text, ok := value.(string); ok && mayBeObject(text) {
						fields[key] = leftOut
					}
				}
				mask(fields)
			case lower == "managedfields":
				delete(tree, name)
			case isList && (lower == "env" || lower == "httpheaders"):
				for _, item := range list {
					if variable, ok := item.(map[string]any); ok && variable["value"] != nil {
						variable["value"] = leftOut
					}
				}
			default:
				mask(value)
			}
		}
	}
}

// mayBeObject reports whether the text of an annotation may be a whole object: as JSON, or compressed and encoded.
func mayBeObject(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, gzipped)
}

// emptied returns what may stand in the place of data, so that the object can be read again: of a map the names.
func emptied(data any) any {
	names, ok := data.(map[string]any)
	if !ok {
		return ""
	}
	for name, value := range names {
		if _, ok := value.(string); ok {
			names[name] = ""
		} else {
			delete(names, name)
		}
	}
	return names
}

// described returns a decision as JSON: the fields that are not empty, also those that are not exported, and API
// objects by name. They are in the snapshot or in the plan. Nil stands for a decision that says nothing.
func described(decision any) json.RawMessage {
	if d := describe(open(decision), deepest); d != nil {
		return masked(d)
	}
	return nil
}

func describe(v reflect.Value, depth int) any {
	if o, ok := object(v); ok {
		return reference(o)
	}
	if !v.IsValid() || v.IsZero() || depth == 0 {
		return nil
	}
	switch x := v.Interface().(type) {
	case error:
		return x.Error()
	case plan.Step:
		return words(x)
	case labels.Selector:
		return x.String()
	case json.Marshaler, encoding.TextMarshaler:
		return x
	case []byte:
		return fmt.Sprintf("%d bytes", len(x))
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return describe(v.Elem(), depth-1)
	case reflect.Struct:
		return describeStruct(v, depth)
	case reflect.Slice, reflect.Array:
		all := make([]any, 0, min(v.Len(), mostItems+1))
		for i := range min(v.Len(), mostItems) {
			all = append(all, describe(v.Index(i), depth-1))
		}
		if more := v.Len() - len(all); more > 0 {
			all = append(all, fmt.Sprintf("and %d more", more))
		}
		return all
	case reflect.Map:
		all := map[string]any{}
		for _, key := range sortedKeys(v) {
			if len(all) == mostItems {
				all["..."] = fmt.Sprintf("%d more", v.Len()-mostItems)
				break
			}
			all[keyText(key)] = describe(v.MapIndex(key), depth-1)
		}
		return all
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return nil
	}
	return v.Interface()
}

func describeStruct(v reflect.Value, depth int) any {
	if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/api/") {
		return v.Interface()
	}
	all := map[string]any{}
	for i := range v.NumField() {
		f, value := v.Type().Field(i), describe(field(v, i), depth-1)
		if parts, ok := value.(map[string]any); ok && f.Anonymous {
			for name, part := range parts {
				all[name] = part
			}
		} else if value != nil {
			all[f.Name] = value
		}
	}
	return all
}

// object returns the API object that a value points to.
func object(v reflect.Value) (plan.Object, bool) {
	if !v.IsValid() || v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface || v.IsNil() {
		return nil, false
	}
	o, ok := v.Interface().(plan.Object)
	if inner := reflect.ValueOf(o); ok && inner.Kind() == reflect.Pointer && inner.IsNil() {
		return nil, false
	}
	return o, ok
}

// open returns a copy of a value whose fields can be read, see [field].
func open(of any) reflect.Value {
	if of == nil {
		return reflect.Value{}
	}
	v := reflect.New(reflect.TypeOf(of)).Elem()
	v.Set(reflect.ValueOf(of))
	return v
}

// field returns a field of a struct, whether or not it is exported: the decisions of controllers are mostly for
// themselves. It is only read.
func field(of reflect.Value, i int) reflect.Value {
	f := of.Field(i)
	if f.CanInterface() {
		return f
	}
	if !f.CanAddr() { // an element of a map
		return field(open(of.Interface()), i)
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(keyText(a), keyText(b)) })
	return keys
}

// keyText names a key of a map.
func keyText(key reflect.Value) string {
	if o, ok := object(key); ok {
		return reference(o)
	}
	return fmt.Sprint(key.Interface())
}
