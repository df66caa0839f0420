package engine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// API is the little of an API server that the engine needs. Errors are those of apimachinery's api/errors. Of what it
// returns, callers read the metadata and nothing else.
type API interface {
	Create(ctx context.Context, k Kind, o plan.Object) (plan.Object, error)
	Update(ctx context.Context, k Kind, o plan.Object, status bool) (plan.Object, error)
	Patch(ctx context.Context, k Kind, namespace, name string, patch []byte, status bool) (plan.Object, error)
	Delete(ctx context.Context, k Kind, namespace, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, k Kind, namespace, name string) (plan.Object, error)
	// List reads live what matches the selector, as metadata.
	List(ctx context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error)
}

// Versions tells how far an API server is.
type Versions interface {
	// Version reads live how far a resource is: whoever has seen that version of it has seen all that was written before.
	Version(ctx context.Context, resource schema.GroupVersionResource) (string, error)
}

// NewAPI returns the API that the client configuration leads to. Each of its requests ends within half a minute.
func NewAPI(config *rest.Config) (API, error) {
	a, err := newRESTAPI(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return bounded{a}, nil
}

// NewVersions returns the versions that the client configuration leads to. It must be that of somebody who may list, in all
// namespaces, whatever controllers watch. Each of its requests ends within half a minute.
func NewVersions(config *rest.Config) (Versions, error) {
	a, err := newRESTAPI(config)
	if err != nil {
		return nil, fmt.Errorf("client for versions: %w", err)
	}
	return a, nil
}

func newRESTAPI(config *rest.Config) (restAPI, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return restAPI{}, err
	}
	accept := config.ContentType
	if accept == "" {
		accept = runtime.ContentTypeJSON
	}
	a := restAPI{accept: accept + metadataOnly + ", " + accept + ", */*", clients: map[schema.GroupVersion]rest.Interface{}}
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}} {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &gv, "/apis", scheme.Codecs.WithoutConversion()
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		client, err := rest.RESTClientForConfigAndClient(c, http)
		if err != nil {
			return restAPI{}, err
		}
		a.clients[gv] = client
	}
	return a, nil
}

// metadataOnly asks the server to answer with the metadata of an object. Servers that cannot answer with the object, of
// which then the metadata is decoded.
const metadataOnly = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

type restAPI struct {
	accept  string // metadata rather than objects (CI-3)
	clients map[schema.GroupVersion]rest.Interface
}

func (a restAPI) Create(ctx context.Context, k Kind, o plan.Object) (plan.Object, error) {
	return a.metadata(ctx, a.of(k).Post().Namespace(o.GetNamespace()).Resource(k.Resource).Body(o))
}

func (a restAPI) Update(ctx context.Context, k Kind, o plan.Object, status bool) (plan.Object, error) {
	r := a.of(k).Put().Namespace(o.GetNamespace()).Resource(k.Resource).Name(o.GetName())
	return a.metadata(ctx, subresource(r, status).Body(o))
}

func (a restAPI) Patch(ctx context.Context, k Kind, namespace, name string, patch []byte, status bool) (plan.Object, error) {
	r := a.of(k).Patch(types.StrategicMergePatchType).Namespace(namespace).Resource(k.Resource).Name(name)
	return a.metadata(ctx, subresource(r, status).Body(patch))
}

func (a restAPI) Delete(ctx context.Context, k Kind, namespace, name string, opts metav1.DeleteOptions) error {
	return a.of(k).Delete().Namespace(namespace).Resource(k.Resource).Name(name).Body(&opts).Do(ctx).Error()
}

func (a restAPI) Get(ctx context.Context, k Kind, namespace, name string) (plan.Object, error) {
	return a.metadata(ctx, a.of(k).Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.Resource).Name(name))
}

func (a restAPI) List(ctx context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	list, err := listMetadata(ctx, a.of(k).Get().Namespace(namespace).Resource(k.Resource), metav1.ListOptions{LabelSelector: selector})
	return list.Items, err
}

func (a restAPI) Version(ctx context.Context, resource schema.GroupVersionResource) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := listMetadata(ctx, a.clients[resource.GroupVersion()].Get().Resource(resource.Resource), metav1.ListOptions{Limit: 1})
	return list.ResourceVersion, err
}

func listMetadata(ctx context.Context, r *rest.Request, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	r.VersionedParams(&o, scheme.ParameterCodec)
	r.SetHeader("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"+
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	return list, r.Do(ctx).Into(list)
}

func subresource(r *rest.Request, status bool) *rest.Request {
	if status {
		return r.SubResource("status")
	}
	return r
}

func (a restAPI) of(k Kind) rest.Interface { return a.clients[k.GroupVersion()] }

// metadata makes a request of which only the metadata of the object in the answer is wanted: its name and uid, its
// version, whether it is being deleted. Neither side then writes or reads the rest.
func (a restAPI) metadata(ctx context.Context, r *rest.Request) (plan.Object, error) {
	o := &metav1.PartialObjectMetadata{}
	if err := r.SetHeader("Accept", a.accept).Do(ctx).Into(o); err != nil {
		return nil, err
	}
	return o, nil
}
