package validatingadmissionpolicystatus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// index says where the OpenAPI document of each version of a group is.
type index struct {
	Paths map[string]struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	} `json:"paths"`
}

// document is what matters of an OpenAPI document of one version of a group.
type document struct {
	Paths      map[string]operations `json:"paths"`
	Components struct {
		Schemas map[string]definition `json:"schemas"`
	} `json:"components"`
}

// operations are what can be done at a path. That it is listed or created there says of which kind a resource is.
type operations struct {
	Get  operation `json:"get"`
	Post operation `json:"post"`
}

type operation struct {
	Kind metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// resolver finds types. It reads each document once for a policy, and none for a type that is known already.
type resolver struct {
	reader    client.Reader
	known     published
	index     *index
	documents map[string]*document
}

// resolve returns the type of a resource or a kind; nil if the API server publishes nothing about it.
func (r *resolver) resolve(ctx context.Context, version schema.GroupVersion, what origin) (*objectType, error) {
	if r.index == nil {
		r.index = &index{}
		if err := r.read(ctx, "/openapi/v3", r.index); err != nil {
			return nil, err
		}
	}
	at := r.index.Paths[pathOf(version)[1:]].ServerRelativeURL
	if at == "" {
		return nil, nil
	}
	what.Group, what.Version = version.Group, version.Version
	if found, ok := r.known.Types.Get(what); ok && found.Document == at {
		return &found.objectType, nil
	}
	d := r.documents[at]
	if d == nil {
		d = &document{}
		if err := r.read(ctx, at, d); err != nil {
			return nil, err
		}
		r.documents[at] = d
	}
	t := d.typeOf(version, what)
	if t != nil {
		t.Document = at
	}
	return t, nil
}

// read reads a path. What the controller's account may not read is empty: policies are marked as checked all the same.
// Other errors pass.
func (r *resolver) read(ctx context.Context, path string, into any) error {
	at, err := url.Parse(path)
	if err != nil {
		return fmt.Errorf("path of an OpenAPI document: %w", err)
	}
	data, err := r.reader.GetRaw(ctx, at.Path, at.Query())
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", at.Path, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", at.Path, err)
	}
	return nil
}

// pathOf returns the path below which a version of a group is served.
func pathOf(version schema.GroupVersion) string {
	if version.Group == "" {
		return "/api/" + version.Version
	}
	return "/apis/" + version.String()
}

// typeOf returns the type of a resource or a kind; nil if the document does not have it.
func (d *document) typeOf(version schema.GroupVersion, what origin) *objectType {
	kind := version.WithKind(what.Kind)
	if what.Resource != "" {
		kind = d.kindOf(version, what.Resource)
	}
	if kind.Kind == "" {
		return nil
	}
	root, found := "", false
	for name, def := range d.Components.Schemas {
		if slices.Contains(def.Kinds, metav1.GroupVersionKind(kind)) && (!found || name < root) {
			root, found = name, true
		}
	}
	if !found {
		return nil
	}
	return &objectType{Origin: what, Kind: kind, Root: root, Definitions: reachable(d.Components.Schemas, root)}
}

// kindOf returns the kind of a resource.
func (d *document) kindOf(version schema.GroupVersion, resource string) schema.GroupVersionKind {
	for _, path := range []string{"/", "/namespaces/{namespace}/"} {
		at := d.Paths[pathOf(version)+path+resource]
		for _, o := range []operation{at.Get, at.Post} {
			if o.Kind.Kind != "" {
				return schema.GroupVersionKind(o.Kind)
			}
		}
	}
	return schema.GroupVersionKind{}
}
