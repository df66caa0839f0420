package listwatch

import (
	"context"
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/apis"
	"github.com/standalone-kcm/controller-manager/internal/projection"
)

// NewClient returns a client for informers. Of answers in protobuf it decodes only what the projection keeps, so that
// whole pods and managedFields never exist in this process. Answers in JSON are decoded whole. The client must not be
// used to write back what it has read.
func NewClient(config *rest.Config, p *projection.Projection) (*Client, error) {
	c := &Client{config: config, projection: p, liveness: NewLiveness()}
	var err error
	if c.http, err = rest.HTTPClientFor(config); err == nil {
		c.Interface, err = kubernetes.NewForConfigAndClient(config, c.http)
	}
	if err == nil {
		c.coalescing, err = rest.HTTPClientFor(coalescing(config))
	}
	if err != nil {
		return nil, fmt.Errorf("client that decodes in part: %w", err)
	}
	return c, nil
}

// Client is a client for informers, see [NewClient].
type Client struct {
	kubernetes.Interface
	config *rest.Config
	// http is the connection of all caches but those of coalescing.
	http       *http.Client
	coalescing *http.Client // for kinds that change all the time, and none of whose changes is urgent
	projection *projection.Projection
	liveness   *Liveness
	// apis says which resources are missing; nil if nobody asks.
	apis *apis.APIs
	Rollbacks
}

// FollowAPIs sets what knows which APIs may be missing. It must be called before anything is listed.
func (c *Client) FollowAPIs(a *apis.APIs) { c.apis = a }

// Gate returns what holds back a cache of the resource while that is not served, by the name of the cache; nil if
// nobody follows the resource.
func (c *Client) Gate(resource schema.GroupVersionResource, name string) *apis.Gate {
	return c.apis.Gate(resource, name)
}

// Keep sets what the client decodes, for a client that was made without. It must be called before anything is listed.
func (c *Client) Keep(p *projection.Projection) { c.projection = p }

// Projection returns what the client decodes.
func (c *Client) Projection() *projection.Projection { return c.projection }

// Liveness returns the liveness of the watches that informers open with this client.
func (c *Client) Liveness() *Liveness { return c.liveness }

// REST returns a client of one API group that decodes what the masks keep.
func (c *Client) REST(group schema.GroupVersion, masks projection.Kinds) (rest.Interface, error) {
	return c.rest(group, masks, c.http)
}

// rest returns a client of one group that decodes by masks.
func (c *Client) rest(group schema.GroupVersion, masks projection.Kinds, over *http.Client) (rest.Interface, error) {
	codec, err := projection.Codec(rest.CodecFactoryForGeneratedClient(scheme.Scheme,
		scheme.Codecs).WithoutConversion(), masks)
	if err != nil {
		return nil, err
	}
	own := *c.config
	own.GroupVersion, own.NegotiatedSerializer, own.APIPath = &group, codec, "/apis"
	if group.Group == "" {
		own.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(&own, over)
}

// json returns a client of one API group that asks for JSON, and decodes it whole.
func (c *Client) json(group schema.GroupVersion, codec runtime.NegotiatedSerializer) (rest.Interface, error) {
	own := *c.config
	own.GroupVersion, own.NegotiatedSerializer, own.APIPath = &group, codec, "/apis"
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientForConfigAndClient(&own, c.http)
}

// ListWatch returns what lists and watches the objects of a kind in all namespaces that the selector of fields
// matches; all if it is empty. The name is that of the cache in health checks.
func (c *Client) ListWatch(kind schema.GroupVersionKind, resource schema.GroupVersionResource, selector,
	name string) (*cache.ListWatch, error) {
	return c.listWatch(c.source(kind, resource, name), kind, resource, selector)
}

// Pods returns what lists and watches pods by other functions than [Client.ListWatch]. A convert function is applied
// to the events of watches.
func (c *Client) Pods(list listFunc, watches watchFunc, convert func(watch.Event) watch.Event) *cache.ListWatch {
	return New(c.source(corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods"),
		"pods"), list, watches, convert)
}

type (
	listFunc  = func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watchFunc = func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// source returns the source of a cache.
func (c *Client) source(kind schema.GroupVersionKind, resource schema.GroupVersionResource, name string) *Source {
	return &Source{
		Of: "*" + kind.Version + "." + kind.Kind, Resource: resource.GroupResource().String(),
		Activity: c.liveness.Of(name), Rollbacks: &c.Rollbacks, Gate: c.Gate(resource, name),
	}
}

// listWatch returns how a cache lists and watches. Leases have a connection of their own.
func (c *Client) listWatch(s *Source, kind schema.GroupVersionKind, resource schema.GroupVersionResource,
	selector string) (*cache.ListWatch, error) {
	over := c.http
	if resource == coordinationv1.SchemeGroupVersion.WithResource("leases") {
		over = c.coalescing // nodes renew theirs every ten seconds
	}
	client, err := c.rest(kind.GroupVersion(), c.projection.Masks(), over)
	if err != nil {
		return nil, err
	}
	request := func(o metav1.ListOptions) *rest.Request {
		o.FieldSelector = selector
		return client.Get().Resource(resource.Resource).VersionedParams(&o, scheme.ParameterCodec)
	}
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		into, err := scheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err != nil {
			return nil, err
		}
		return into, request(o).Do(ctx).Into(into)
	}
	watches := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.Watch = true
		return request(o).Watch(ctx)
	}
	return New(s, list, watches, nil), nil
}
