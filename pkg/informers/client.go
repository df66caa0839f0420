package informers

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/projection/fieldmask"
)

// NewClient returns a client for [NewFactory]. Of answers in protobuf it decodes only what the projection keeps, so that whole
// pods and managedFields never exist in this process. Answers in JSON are decoded whole. The client must not be used to
// write back what it has read.
func NewClient(config *rest.Config, p *projection.Projection) (*Client, error) {
	c, err := newClient(config, p)
	if err != nil {
		return nil, fmt.Errorf("client that decodes in part: %w", err)
	}
	return &c, nil
}

// Client is a client for informers, see [NewClient].
type Client struct {
	kubernetes.Interface
	config     *rest.Config
	http       *http.Client
	projection *projection.Projection
	liveness   *WatchLiveness
	rollbacks  *rollbacks
}

// Liveness returns the liveness of the watches that informers of [NewFactory] open with this client.
func (c *Client) Liveness() *WatchLiveness { return c.liveness }

func newClient(config *rest.Config, p *projection.Projection) (c Client, err error) {
	c = Client{config: config, projection: p, liveness: NewWatchLiveness(), rollbacks: &rollbacks{}}
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return c, err
	}
	c.Interface, err = kubernetes.NewForConfigAndClient(config, c.http)
	return c, err
}

// rest returns a client of one API group that decodes what the masks keep.
func (c *Client) rest(group schema.GroupVersion, masks fieldmask.Kinds) (rest.Interface, error) {
	codec, err := fieldmask.Codec(rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), masks)
	if err != nil {
		return nil, err
	}
	own := *c.config
	own.GroupVersion, own.NegotiatedSerializer, own.APIPath = &group, codec, "/apis"
	if group.Group == "" {
		own.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(&own, c.http)
}

// listWatch returns what lists and watches the objects of a kind in all namespaces that the selector of fields matches; all if it
// is empty.
func (c *Client) listWatch(kind schema.GroupVersionKind, resource schema.GroupVersionResource, selector string) (*cache.ListWatch, error) {
	client, err := c.rest(kind.GroupVersion(), c.projection.Masks())
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
	return listWatch(c.rollbacks, "*"+kind.Version+"."+kind.Kind, c.liveness.Of(cacheName(resource.GroupResource().String(), selector)), list, watches, nil), nil
}

// podSource returns what lists and watches pods, without the parts that belong to an informer.
func (c *Client) podSource() (s podSource, err error) {
	s = podSource{mask: c.projection.PodMask(), decoder: c.projection.PodDecoder(), project: c.projection.ProjectPod}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	s.rest, err = c.rest(corev1.SchemeGroupVersion, fieldmask.Kinds{pods: {Mask: s.mask, Decode: s.decoder.DecodeEvent}})
	return s, err
}
