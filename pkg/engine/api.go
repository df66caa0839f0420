package engine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// API is the little of an API server that the engine needs. Errors are those of apimachinery's api/errors.
type API interface {
	Create(ctx context.Context, k Kind, o plan.Object) (plan.Object, error)
	Update(ctx context.Context, k Kind, o plan.Object, status bool) (plan.Object, error)
	Patch(ctx context.Context, k Kind, namespace, name string, patch []byte, status bool) (plan.Object, error)
	Delete(ctx context.Context, k Kind, namespace, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, k Kind, namespace, name string) (plan.Object, error)
	// List reads live what matches the selector, as metadata.
	List(ctx context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error)
}

// NewAPI returns the API that the client configuration leads to. Each of its requests ends within half a minute.
func NewAPI(config *rest.Config) (API, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	a := restAPI{}
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}} {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &gv, "/apis", scheme.Codecs.WithoutConversion()
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		client, err := rest.RESTClientForConfigAndClient(c, http)
		if err != nil {
			return nil, fmt.Errorf("client for the API server: %w", err)
		}
		a[gv] = client
	}
	return bounded{a}, nil
}

type restAPI map[schema.GroupVersion]rest.Interface

func (a restAPI) Create(ctx context.Context, k Kind, o plan.Object) (plan.Object, error) {
	return into(ctx, k, a[k.GroupVersion()].Post().Namespace(o.GetNamespace()).Resource(k.Resource).Body(o))
}

func (a restAPI) Update(ctx context.Context, k Kind, o plan.Object, status bool) (plan.Object, error) {
	r := a[k.GroupVersion()].Put().Namespace(o.GetNamespace()).Resource(k.Resource).Name(o.GetName())
	return into(ctx, k, subresource(r, status).Body(o))
}

func (a restAPI) Patch(ctx context.Context, k Kind, namespace, name string, patch []byte, status bool) (plan.Object, error) {
	r := a[k.GroupVersion()].Patch(types.StrategicMergePatchType).Namespace(namespace).Resource(k.Resource).Name(name)
	return into(ctx, k, subresource(r, status).Body(patch))
}

func (a restAPI) Delete(ctx context.Context, k Kind, namespace, name string, opts metav1.DeleteOptions) error {
	return a[k.GroupVersion()].Delete().Namespace(namespace).Resource(k.Resource).Name(name).Body(&opts).Do(ctx).Error()
}

func (a restAPI) Get(ctx context.Context, k Kind, namespace, name string) (plan.Object, error) {
	return into(ctx, k, a[k.GroupVersion()].Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.Resource).Name(name))
}

func (a restAPI) List(ctx context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	r := a[k.GroupVersion()].Get().Namespace(namespace).Resource(k.Resource)
	r.VersionedParams(&metav1.ListOptions{LabelSelector: selector}, scheme.ParameterCodec)
	r.SetHeader("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"+
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	return list.Items, r.Do(ctx).Into(list)
}

func subresource(r *rest.Request, status bool) *rest.Request {
	if status {
		return r.SubResource("status")
	}
	return r
}

func into(ctx context.Context, k Kind, r *rest.Request) (plan.Object, error) {
	o := k.New()
	if err := r.Do(ctx).Into(o); err != nil {
		return nil, err
	}
	return o, nil
}
