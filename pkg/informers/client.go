package informers

import (
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/fieldmask"
	"github.com/standalone-kcm/controller-manager/pkg/projection"
)

// NewClient returns a client for [NewFactory]. Of answers in protobuf it decodes only what [projection.Project] keeps, so that
// whole pods and managedFields never exist in this process. Answers in JSON are decoded whole. The client must not be used to
// write back what it has read.
func NewClient(config *rest.Config) (*Client, error) {
	c, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("client that decodes in part: %w", err)
	}
	return &c, nil
}

// Client is a client for informers, see [NewClient].
type Client struct {
	kubernetes.Interface
	core     *corev1client.CoreV1Client
	apps     *appsv1client.AppsV1Client
	pods     podSource // without the parts that belong to an informer
	liveness *WatchLiveness
}

// Liveness returns the liveness of the watches that informers of [NewFactory] open with this client.
func (c *Client) Liveness() *WatchLiveness { return c.liveness }

// activityOf returns where the lists and watches of a resource are noted. The activity of other clients is not kept.
func activityOf(k kubernetes.Interface, resource string) *WatchActivity {
	if c, ok := k.(*Client); ok {
		return c.liveness.Of(resource)
	}
	return &WatchActivity{}
}

// CoreV1 implements kubernetes.Interface.
func (c *Client) CoreV1() corev1client.CoreV1Interface { return c.core }

// AppsV1 implements kubernetes.Interface.
func (c *Client) AppsV1() appsv1client.AppsV1Interface { return c.apps }

func newClient(config *rest.Config) (c Client, err error) {
	c.liveness = NewWatchLiveness()
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return c, err
	}
	if c.Interface, err = kubernetes.NewForConfigAndClient(config, http); err != nil {
		return c, err
	}
	kinds, err := projection.Kinds()
	if err != nil {
		return c, err
	}
	core, err := restClient(config, http, corev1.SchemeGroupVersion, kinds)
	if err != nil {
		return c, err
	}
	apps, err := restClient(config, http, appsv1.SchemeGroupVersion, kinds)
	if err != nil {
		return c, err
	}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	pod := kinds[pods]
	c.core, c.apps, c.pods = corev1client.New(core), appsv1client.New(apps), podSource{mask: pod.Mask, decoder: &projection.PodDecoder{}}
	pod.Decode = c.pods.decoder.DecodeEvent
	c.pods.rest, err = restClient(config, http, corev1.SchemeGroupVersion, fieldmask.Kinds{pods: pod})
	return c, err
}

func restClient(config *rest.Config, http *http.Client, group schema.GroupVersion, kinds fieldmask.Kinds) (rest.Interface, error) {
	codec, err := fieldmask.Codec(rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), kinds)
	if err != nil {
		return nil, err
	}
	own := *config
	own.GroupVersion, own.NegotiatedSerializer, own.APIPath = &group, codec, "/apis"
	if group.Group == "" {
		own.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(&own, http)
}
