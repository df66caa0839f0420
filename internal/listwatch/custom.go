package listwatch

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Custom are kinds that are not built in.
type Custom struct {
	Schemes []*runtime.Scheme
	// Resource returns the resource of a kind, as discovery knows it.
	Resource func(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, error)
}

// ListWatch returns what lists and watches the objects of a kind, in JSON. They come whole, with their kind, which
// client-go would take off.
func (c *Custom) ListWatch(
	client *Client, kind schema.GroupVersionKind, resource schema.GroupVersionResource, name, selector string,
) (*cache.ListWatch, error) {
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	codec, err := c.codec(kind, listKind)
	if err != nil {
		return nil, err
	}
	version := kind.GroupVersion()
	requests, err := client.json(version, codec)
	if err != nil {
		return nil, err
	}
	request := func(ctx context.Context, o metav1.ListOptions) (*rest.Request, error) {
		resource, err := c.Resource(ctx, kind)
		if err != nil {
			return nil, err
		}
		o.FieldSelector = selector
		return requests.Get().Resource(resource.Resource).SpecificallyVersionedParams(&o, scheme.ParameterCodec,
			metav1.Unversioned), nil
	}
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		req, err := request(ctx, o)
		if err != nil {
			return nil, err
		}
		into, err := c.empty(listKind)
		if err != nil {
			return nil, err
		}
		if err := req.Do(ctx).Into(into); err != nil {
			return nil, err
		}
		return into, meta.EachListItem(into, func(o runtime.Object) error {
			o.GetObjectKind().SetGroupVersionKind(kind)
			return nil
		})
	}
	watches := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.Watch = true
		req, err := request(ctx, o)
		if err != nil {
			return nil, err
		}
		return req.Watch(ctx)
	}
	return New(client.source(kind, resource, name), list, watches, ofKind(kind)), nil
}

// ofKind returns what gives the objects of events their kind.
func ofKind(kind schema.GroupVersionKind) func(watch.Event) watch.Event {
	return func(e watch.Event) watch.Event {
		if _, status := e.Object.(*metav1.Status); !status && e.Object != nil {
			e.Object.GetObjectKind().SetGroupVersionKind(kind)
		}
		return e
	}
}

// codec returns a serializer of the kind and of lists of it, whatever else is in the scheme.
func (c *Custom) codec(kinds ...schema.GroupVersionKind) (runtime.NegotiatedSerializer, error) {
	own := runtime.NewScheme()
	for _, kind := range kinds {
		example, err := c.empty(kind)
		if err != nil {
			return nil, err
		}
		own.AddKnownTypeWithName(kind, example)
	}
	metav1.AddToGroupVersion(own, kinds[0].GroupVersion())
	metav1.AddToGroupVersion(own, schema.GroupVersion{Version: "v1"}) // statuses
	return serializer.NewCodecFactory(own).WithoutConversion(), nil
}

// empty returns an empty object of a kind, or an empty list.
func (c *Custom) empty(kind schema.GroupVersionKind) (runtime.Object, error) {
	for _, s := range c.Schemes {
		if s.Recognizes(kind) {
			return s.New(kind)
		}
	}
	return nil, fmt.Errorf("cache of %s: no scheme has the kind", kind.Kind)
}
