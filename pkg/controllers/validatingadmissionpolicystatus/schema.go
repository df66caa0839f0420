package validatingadmissionpolicystatus

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel"
)

// objectType is what is known of the objects of a kind: the definitions of an OpenAPI document that they consist of.
type objectType struct {
	Origin      origin
	Document    string // the path of the OpenAPI document, which has a hash of the content in it
	Kind        schema.GroupVersionKind
	Root        string // the name of the definition of the objects themselves
	Definitions map[string]definition
}

// origin says which type it is: what was looked for, a resource or a kind of a version of a group.
type origin struct{ Group, Version, Resource, Kind string }

// definition is a named part of an OpenAPI document.
type definition struct {
	fields
	Kinds []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind,omitempty"`
}

// fields are what an OpenAPI schema says of a value, as far as it matters for the type of an expression.
type fields struct {
	Ref                  string            `json:"$ref,omitempty"`
	AllOf                []fields          `json:"allOf,omitempty"` // a reference with a description or a default
	Type                 string            `json:"type,omitempty"`
	Format               string            `json:"format,omitempty"`
	Properties           map[string]fields `json:"properties,omitempty"`
	Items                *fields           `json:"items,omitempty"`
	AdditionalProperties *values           `json:"additionalProperties,omitempty"`
	IntOrString          bool              `json:"x-kubernetes-int-or-string,omitempty"`
	Preserve             bool              `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	Embedded             bool              `json:"x-kubernetes-embedded-resource,omitempty"`
}

// values is the schema of the values of a map. In a document it may also be a mere yes or no, and says nothing then.
type values struct{ fields }

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(data []byte) error {
	if text := string(data); text == "true" || text == "false" {
		return nil
	}
	return json.Unmarshal(data, &v.fields)
}

// refPrefix is how references to definitions begin.
const refPrefix = "#/components/schemas/"

// reference returns the name of the definition to which a schema refers; empty if it says by itself what it is.
func (f *fields) reference() string {
	if f.Ref == "" && len(f.AllOf) == 1 && f.Type == "" {
		f = &f.AllOf[0]
	}
	return strings.TrimPrefix(f.Ref, refPrefix)
}

// references calls a function with the name of each definition to which a schema refers.
func (f *fields) references(found func(name string)) {
	if name := f.reference(); name != "" {
		found(name)
	}
	for _, property := range f.Properties {
		property.references(found)
	}
	if f.Items != nil {
		f.Items.references(found)
	}
	if f.AdditionalProperties != nil {
		f.AdditionalProperties.references(found)
	}
}

// reachable returns those of the definitions that an object consists of.
func reachable(all map[string]definition, root string) map[string]definition {
	found := map[string]definition{}
	var add func(name string)
	add = func(name string) {
		d, ok := all[name]
		if _, known := found[name]; known || !ok {
			return
		}
		found[name] = d
		d.references(add)
	}
	add(root)
	return found
}

// The size of a type for the compiler is bounded: a document in which definitions refer to others again and again could
// make it as large as one likes. The largest types of Kubernetes have some thousand parts. The name of a part has those
// of all parts around it, so long names count as more parts.
const (
	mostParts   = 50_000
	partOfName  = 256  // so many bytes count as a part; names of real types have fewer
	longestName = 4096 // what has a longer name is dynamic
)

// declaration returns the type for the compiler.
func (o *objectType) declaration() *cel.DeclType {
	d := declarer{definitions: o.Definitions, left: mostParts}
	name := strings.ReplaceAll(o.Kind.GroupVersion().String(), "/", ".") + "." + o.Kind.Kind
	return d.declare(name, &fields{Ref: refPrefix + o.Root})
}

// declarer turns schemas into types for the compiler.
type declarer struct {
	definitions map[string]definition
	above       []string // the definitions of which the present one is a part
	left        int      // how many parts the type may have yet
}

// declare returns the type of a value. What a schema leaves open is dynamic, so that the compiler accepts whatever is
// done with it: a value of several types, an object with fields that the schema does not name, and one that contains
// objects like itself (VAP-21).
func (d *declarer) declare(name string, f *fields) *cel.DeclType {
	if d.left -= 1 + len(name)/partOfName; d.left < 0 || len(name) > longestName {
		return cel.DynType
	}
	if to := f.reference(); to != "" {
		return d.refer(name, to)
	}
	switch {
	case f.IntOrString, f.Preserve, f.Embedded:
	case f.Type == "object" && f.AdditionalProperties != nil:
		return cel.NewMapType(cel.StringType, d.declare(name+".@elem", &f.AdditionalProperties.fields), -1)
	case f.Type == "object":
		return d.object(name, f.Properties)
	case f.Type == "array" && f.Items != nil:
		return cel.NewListType(d.declare(name+".@idx", f.Items), -1)
	case f.Type == "string":
		return stringType(f.Format)
	case f.Type == "boolean":
		return cel.BoolType
	case f.Type == "integer":
		return cel.IntType
	case f.Type == "number":
		return cel.DoubleType
	}
	return cel.DynType
}

// refer returns the type of a definition. If it names no fields, it stands for any object, such as the one that a
// ControllerRevision holds.
func (d *declarer) refer(name, to string) *cel.DeclType {
	def, known := d.definitions[to]
	open := def.Type == "object" && len(def.Properties) == 0 && def.AdditionalProperties == nil
	if !known || open || slices.Contains(d.above, to) {
		return cel.DynType
	}
	d.above = append(d.above, to)
	defer func() { d.above = d.above[:len(d.above)-1] }()
	return d.declare(name, &def.fields)
}

// object returns the type of an object with these fields. Those that no expression can name are left out.
func (d *declarer) object(name string, properties map[string]fields) *cel.DeclType {
	all := make(map[string]*cel.DeclField, len(properties))
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		if escaped, ok := cel.Escape(field); ok {
			f := properties[field]
			all[escaped] = cel.NewDeclField(escaped, d.declare(name+"."+field, &f), false, nil, nil)
		}
	}
	return cel.NewObjectType(name, all)
}

// stringType returns the type of what is a string in JSON. Expressions know some formats as types of their own.
func stringType(format string) *cel.DeclType {
	switch format {
	case "int-or-string":
		return cel.DynType
	case "byte":
		return cel.BytesType
	case "duration":
		return cel.DurationType
	case "date", "date-time":
		return cel.TimestampType
	}
	return cel.StringType
}
