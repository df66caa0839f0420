package exam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// World is the control plane that all problems share.
type World struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
}

// NewWorld makes the clients that problems are set up with.
func NewWorld(client kubernetes.Interface, config *rest.Config) (*World, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for all kinds: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return &World{client, objects, mapper}, nil
}

// Place is where a problem is: its namespace, and the objects made for it.
type Place struct {
	*World
	NS   string
	made []made
}

// made is an object that goes with its problem.
type made struct {
	resource dynamic.ResourceInterface
	name     string
	held     bool // by finalizers
	outside  bool // of the namespace of the problem
}

// Place returns the place of a problem in a namespace that exists.
func (w *World) Place(namespace string) *Place { return &Place{World: w, NS: namespace} }

// Create creates an object. If it has a status, this is written, too: only of nodes the API server takes it from the beginning.
func (p *Place) Create(ctx context.Context, object map[string]any) error {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	what := u.GetKind() + "/" + u.GetName()
	resource, err := p.resourceOf(u)
	if err != nil {
		return err
	}
	status, hasStatus := u.Object["status"]
	created, err := resource.Create(ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return fmt.Errorf("create %s: %w", what, err)
	}
	p.made = append(p.made, made{resource, created.GetName(), len(u.GetFinalizers()) > 0, created.GetNamespace() != p.NS})
	if !hasStatus {
		return nil
	}
	if err := patch(ctx, resource, created.GetName(), types.MergePatchType, map[string]any{"status": status}, "status"); err != nil {
		return fmt.Errorf("write the status of %s: %w", what, err)
	}
	return nil
}

// Clear takes away what was made, last first: all that is outside the namespace, and the finalizers of what is inside.
func (p *Place) Clear(ctx context.Context) error {
	var problems []error
	for _, m := range slices.Backward(p.made) {
		if m.outside {
			problems = append(problems, m.resource.Delete(ctx, m.name, metav1.DeleteOptions{}))
		}
		if m.held {
			free := map[string]any{"metadata": map[string]any{"finalizers": nil}}
			problems = append(problems, patch(ctx, m.resource, m.name, types.MergePatchType, free))
		}
	}
	for i, err := range problems {
		if apierrors.IsNotFound(err) {
			problems[i] = nil
		}
	}
	return errors.Join(problems...)
}

// resourceOf is where objects like this one are.
func (p *Place) resourceOf(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := u.GroupVersionKind()
	mapping, err := p.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(p.mapper) // a definition of the problem may have added the kind
		mapping, err = p.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return p.dynamic.Resource(mapping.Resource), nil
	}
	if u.GetNamespace() == "" {
		u.SetNamespace(p.NS)
	}
	return p.dynamic.Resource(mapping.Resource).Namespace(u.GetNamespace()), nil
}

// named is where the objects of a kind are that the problem has, by a name of the kind such as deployment.
func (p *Place) named(kind string) (dynamic.ResourceInterface, schema.GroupVersionKind, error) {
	found, err := p.mapper.KindFor(schema.GroupVersionResource{Resource: kind})
	if meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(p.mapper)
		found, err = p.mapper.KindFor(schema.GroupVersionResource{Resource: kind})
	}
	if err != nil {
		return nil, found, fmt.Errorf("find the kind %q: %w", kind, err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(found)
	resource, err := p.resourceOf(u)
	return resource, found, err
}

// find returns the objects that kind/name stands for.
func (p *Place) find(ctx context.Context, object string) ([]unstructured.Unstructured, error) {
	kind, name, err := split(object)
	if err != nil {
		return nil, err
	}
	resource, _, err := p.named(kind)
	if err != nil {
		return nil, err
	}
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return !matches(name, u.GetName()) }), nil
}

func patch(ctx context.Context, resource dynamic.ResourceInterface, name string, kind types.PatchType, with any,
	subresources ...string) error {
	text, err := json.Marshal(with)
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	_, err = resource.Patch(ctx, name, kind, text, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, subresources...)
	return err
}
