package apiserver

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// PublishedAfter is how long after a change of a CustomResourceDefinition the server publishes what follows from it, as a real one needs
// some time for that.
const PublishedAfter = 2 * time.Second

// schemaOf is a part of an OpenAPI document, as JSON.
type schemaOf = map[string]any

// openAPI answers /openapi/v3 and the paths of documents, of which there is one for each version of a group.
func (s *Server) openAPI(req *http.Request) (runtime.Object, error) {
	documents := s.documents()
	path := strings.Trim(req.URL.Path, "/")
	if path == "openapi/v3" {
		paths := schemaOf{}
		for name, document := range documents {
			h := fnv.New64a()
			h.Write(document)
			paths[name] = schemaOf{"serverRelativeURL": fmt.Sprintf("/openapi/v3/%s?hash=%X", name, h.Sum64())}
		}
		index, err := json.Marshal(schemaOf{"paths": paths})
		return &runtime.Unknown{Raw: index, ContentType: runtime.ContentTypeJSON}, err
	}
	if document := documents[strings.TrimPrefix(path, "openapi/v3/")]; document != nil {
		return &runtime.Unknown{Raw: document, ContentType: runtime.ContentTypeJSON}, nil
	}
	return nil, unknownPath(req.Method, req.URL.Path)
}

// documents returns all documents by their paths.
func (s *Server) documents() map[string][]byte {
	all := map[string][]byte{}
	for name, document := range builtInDocuments() {
		all[name] = document
	}
	of := map[schema.GroupVersion]*documentWriter{}
	for _, d := range s.definitionsAt(time.Now().Add(-PublishedAfter)) {
		defineIn(of, d)
	}
	for version, w := range of {
		all[documentPath(version)] = w.json()
	}
	return all
}

// definitionsAt returns the CustomResourceDefinitions as they were at a time.
func (s *Server) definitionsAt(at time.Time) map[string]*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]*unstructured.Unstructured{}
	for _, e := range s.log {
		d, ok := e.Object.(*unstructured.Unstructured)
		if !ok || d.GroupVersionKind() != Definitions.GroupVersionKind || e.Time.After(at) {
			continue
		}
		if there[d.GetName()] = d; e.Type == watch.Deleted {
			delete(there, d.GetName())
		}
	}
	return there
}

// defineIn adds what a CustomResourceDefinition defines to the documents of its versions.
func defineIn(documents map[schema.GroupVersion]*documentWriter, d *unstructured.Unstructured) {
	group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(d.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	for _, v := range versions {
		fields, _ := v.(map[string]any)
		name, _ := fields["name"].(string)
		version := schema.GroupVersion{Group: group, Version: name}
		w := documents[version]
		if w == nil {
			w = newDocumentWriter(version)
			documents[version] = w
		}
		root, _, _ := unstructured.NestedMap(fields, "schema", "openAPIV3Schema")
		if properties, ok := root["properties"].(map[string]any); ok {
			for name, one := range w.properties(reflect.TypeFor[metav1.TypeMeta]()) {
				properties[name] = one
			}
			properties["metadata"] = w.schema(reflect.TypeFor[metav1.ObjectMeta]())
		}
		w.add(group+"."+name+"."+kind, root, version.WithKind(kind), plural)
	}
}

func documentPath(version schema.GroupVersion) string {
	if version.Group == "" {
		return "api/" + version.Version
	}
	return "apis/" + version.String()
}

// builtInDocuments are those of the built-in kinds.
var builtInDocuments = sync.OnceValue(func() map[string][]byte {
	of := map[schema.GroupVersion]*documentWriter{}
	for _, k := range builtIn() {
		w := of[k.GroupVersion()]
		if w == nil {
			w = newDocumentWriter(k.GroupVersion())
			of[k.GroupVersion()] = w
		}
		name := w.define(k.object)
		w.add(name, w.definitions[name].(schemaOf), k.GroupVersionKind, k.Resource)
	}
	all := map[string][]byte{}
	for version, w := range of {
		all[documentPath(version)] = w.json()
	}
	return all
})

// documentWriter makes a document.
type documentWriter struct {
	version     schema.GroupVersion
	paths       schemaOf
	definitions schemaOf
}

func newDocumentWriter(version schema.GroupVersion) *documentWriter {
	return &documentWriter{version: version, paths: schemaOf{}, definitions: schemaOf{}}
}

// add adds the definition of a kind, and where its objects are listed.
func (w *documentWriter) add(name string, root schemaOf, kind schema.GroupVersionKind, resource string) {
	of := schemaOf{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}
	root["x-kubernetes-group-version-kind"] = []any{of}
	w.definitions[name] = root
	w.paths["/"+documentPath(w.version)+"/"+resource] = schemaOf{"get": schemaOf{"x-kubernetes-group-version-kind": of}}
}

func (w *documentWriter) json() []byte {
	text, err := json.Marshal(schemaOf{"openapi": "3.0.0", "paths": w.paths, "components": schemaOf{"schemas": w.definitions}})
	if err != nil {
		panic(err) // cannot be: it is made of maps and strings
	}
	return text
}

// define adds the definition of a struct, and of all that it consists of, and returns its name.
func (w *documentWriter) define(t reflect.Type) string {
	name := strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
	if _, known := w.definitions[name]; known {
		return name
	}
	w.definitions[name] = nil // it may contain itself
	w.definitions[name] = w.definition(t)
	return name
}

// These say by themselves what they are in JSON.
type (
	describesItself interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	hasSeveralTypes interface{ OpenAPIV3OneOfTypes() []string }
)

func (w *documentWriter) definition(t reflect.Type) schemaOf {
	own := reflect.New(t).Elem().Interface()
	if d, ok := own.(describesItself); ok && len(d.OpenAPISchemaType()) > 0 {
		said := schemaOf{"type": d.OpenAPISchemaType()[0], "format": d.OpenAPISchemaFormat()}
		if several, ok := own.(hasSeveralTypes); ok {
			delete(said, "type")
			said["oneOf"] = []any{schemaOf{"type": several.OpenAPIV3OneOfTypes()[0]}, schemaOf{"type": several.OpenAPIV3OneOfTypes()[1]}}
		}
		return said
	}
	return schemaOf{"type": "object", "properties": w.properties(t)}
}

// properties are the fields of a struct by their names in JSON.
func (w *documentWriter) properties(t reflect.Type) schemaOf {
	all := schemaOf{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			for name, one := range w.properties(f.Type) {
				all[name] = one
			}
		case name != "":
			all[name] = w.schema(f.Type)
		}
	}
	return all
}

// schema is what a type is in JSON.
func (w *documentWriter) schema(t reflect.Type) schemaOf {
	switch t.Kind() {
	case reflect.Pointer:
		return w.schema(t.Elem())
	case reflect.Struct:
		return schemaOf{"allOf": []any{schemaOf{"$ref": "#/components/schemas/" + w.define(t)}}, "default": schemaOf{}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return schemaOf{"type": "string", "format": "byte"}
		}
		return schemaOf{"type": "array", "items": w.schema(t.Elem())}
	case reflect.Map:
		return schemaOf{"type": "object", "additionalProperties": w.schema(t.Elem())}
	case reflect.String:
		return schemaOf{"type": "string"}
	case reflect.Bool:
		return schemaOf{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return schemaOf{"type": "integer"}
	case reflect.Float64:
		return schemaOf{"type": "number"}
	}
	return schemaOf{}
}
