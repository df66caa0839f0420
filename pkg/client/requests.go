package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reader implements [Reader].
type reader struct{ clients *Clients }

// writer implements [Client].
type writer struct{ reader }

var (
	_ Reader = reader{}
	_ Client = writer{}
)

// pageSize is how many objects a page of a list has.
const pageSize = 500

// listTimeout bounds a list of many pages. A server forgets after a few minutes how to go on with one.
const listTimeout = 10 * time.Minute

func (r reader) Get(ctx context.Context, m Mapping, key plan.Key, into plan.Object) error {
	if r.clients.options.GetByList {
		return r.getByList(ctx, m, key, into)
	}
	req, err := r.named(http.MethodGet, m, key)
	if err != nil {
		return err
	}
	return r.do(ctx, r.accept(req, m, into)).Into(into)
}

// getByList reads the object of a name by a list, see [Options].
func (r reader) getByList(ctx context.Context, m Mapping, key plan.Key, into plan.Object) error {
	kind := m.GroupVersionKind.GroupVersion().WithKind(m.Kind + "List")
	var list runtime.Object
	switch into.(type) {
	case *metav1.PartialObjectMetadata:
		list = &metav1.PartialObjectMetadataList{}
	case *unstructured.Unstructured:
		unknown := &unstructured.UnstructuredList{}
		unknown.SetGroupVersionKind(kind)
		list = unknown
	default:
		var err error
		if list, err = scheme.Scheme.New(kind); err != nil {
			return err
		}
	}
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()}
	if err := r.List(ctx, m, key.Namespace, o, list); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return apierrors.NewNotFound(m.GroupResource(), key.Name)
	}
	found, err := meta.Accessor(items[0])
	if err != nil {
		return err
	}
	if found.GetName() != key.Name || found.GetNamespace() != key.Namespace {
		return fmt.Errorf("a list of %s has not obeyed the selector %s", m.GroupResource(), o.FieldSelector)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(items[0]).Elem())
	return nil
}

// List implements Reader. A list without a limit is read page by page, and has one time limit for all of
// them.
func (r reader) List(ctx context.Context, m Mapping, namespace string, o metav1.ListOptions,
	into runtime.Object) error {
	if o.Limit > 0 {
		return r.listPage(ctx, m, namespace, o, into)
	}
	o.Limit = pageSize
	var all []runtime.Object
	var pages paging.List
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for {
		page := reflect.New(reflect.TypeOf(into).Elem()).Interface().(runtime.Object)
		err := r.listPage(ctx, m, namespace, o, page)
		if o.Continue != "" && apierrors.IsResourceExpired(err) { // it took too long: read all at once
			o.Continue, o.Limit, all = "", 0, nil
			err = r.listPage(ctx, m, namespace, o, page)
		}
		if err != nil {
			return err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		all = append(all, items...)
		if err := pages.Next(about.GetContinue()); err != nil {
			return fmt.Errorf("list %s: %w", m.GroupResource(), err)
		}
		if o.Continue = about.GetContinue(); o.Continue == "" {
			about.SetRemainingItemCount(nil)
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(page).Elem())
			return meta.SetList(into, all)
		}
	}
}

// listPage reads one page.
func (r reader) listPage(ctx context.Context, m Mapping, namespace string, o metav1.ListOptions,
	into runtime.Object) error {
	req, err := r.collection(http.MethodGet, m, namespace)
	if err != nil {
		return err
	}
	return r.do(ctx, r.accept(matching(req, o), m, into)).Into(into)
}

func (r reader) GetScale(ctx context.Context, m Mapping, key plan.Key) (*autoscalingv1.Scale, error) {
	req, err := r.named(http.MethodGet, m, key)
	if err != nil {
		return nil, err
	}
	s := &autoscalingv1.Scale{}
	return s, r.do(ctx, req.SubResource("scale")).Into(s)
}

// SubjectAccessReview implements Reader. It is a creation by its verb, and changes nothing.
func (r reader) SubjectAccessReview(ctx context.Context,
	ask authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: ask}
	req, err := r.collection(http.MethodPost, accessReviews(), "")
	if err == nil {
		err = r.do(ctx, req.Body(review)).Into(review)
	}
	return review.Status, err
}

func (r reader) GetRaw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	client, err := r.clients.pathClient()
	if err != nil {
		return nil, err
	}
	req := client.Get().AbsPath(path)
	for name, values := range query {
		for _, value := range values {
			req.Param(name, value)
		}
	}
	answer := r.do(ctx, req)
	if err := answer.Error(); err != nil { // in the words of the server, which Raw does not read
		return nil, err
	}
	return answer.Raw()
}

func (w writer) Create(ctx context.Context, m Mapping, o plan.Object, opts WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	req, err := w.collection(http.MethodPost, m, o.GetNamespace())
	if err != nil {
		return nil, err
	}
	if opts.Subresource != "" {
		req.Name(o.GetName())
	}
	return w.write(ctx, m, req, o, opts)
}

func (w writer) Update(ctx context.Context, m Mapping, o plan.Object, opts WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	req, err := w.named(http.MethodPut, m, plan.KeyOf(o))
	if err != nil {
		return nil, err
	}
	return w.write(ctx, m, req, o, opts)
}

func (w writer) Patch(ctx context.Context, m Mapping, key plan.Key, patch Patch,
	opts WriteOptions) (*metav1.PartialObjectMetadata, error) {
	req, err := w.named(http.MethodPatch, m, key)
	if err != nil {
		return nil, err
	}
	req.SetHeader("Content-Type", string(patch.Type)).Body(patch.Data)
	if patch.Type == types.ApplyPatchType {
		req.Param("force", fmt.Sprint(opts.Force))
	}
	return w.answered(ctx, m, req, opts)
}

func (w writer) Delete(ctx context.Context, m Mapping, key plan.Key, opts metav1.DeleteOptions) error {
	req, err := w.named(http.MethodDelete, m, key)
	if err != nil {
		return err
	}
	return w.delete(ctx, req, opts)
}

func (w writer) DeleteCollection(ctx context.Context, m Mapping, namespace string, match metav1.ListOptions,
	opts metav1.DeleteOptions) error {
	req, err := w.collection(http.MethodDelete, m, namespace)
	if err != nil {
		return err
	}
	return w.delete(ctx, matching(req, match), opts)
}

// write sends an object.
func (w writer) write(ctx context.Context, m Mapping, req *rest.Request, o plan.Object,
	opts WriteOptions) (*metav1.PartialObjectMetadata, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		return nil, fmt.Errorf("write %s %s: its metadata alone can only be patched", m.Kind, o.Name)
	case runtime.Unstructured:
		data, err := json.Marshal(o.UnstructuredContent())
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", m.Kind, err)
		}
		req.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data)
	default:
		// a Scale of a custom resource is of a type that client-go knows
		if _, _, err := scheme.Scheme.ObjectKinds(o); err != nil {
			return w.writeCustom(ctx, m, req, o, opts)
		}
		req.Body(o.DeepCopyObject()) // the encoder writes to the object while it encodes it
	}
	return w.answered(ctx, m, req, opts)
}

// writeCustom sends an object of a type that client-go does not know.
func (w writer) writeCustom(ctx context.Context, m Mapping, req *rest.Request, o plan.Object,
	opts WriteOptions) (*metav1.PartialObjectMetadata, error) {
	named := o.DeepCopyObject()
	named.GetObjectKind().SetGroupVersionKind(m.GroupVersionKind)
	data, err := json.Marshal(named)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Kind, err)
	}
	return w.answered(ctx, m, req.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data), opts)
}

// answered makes a write of which only the metadata of the object in the answer is wanted: its name and uid, its
// version, whether it is being deleted. Neither side then writes or reads the rest.
func (w writer) answered(ctx context.Context, m Mapping, req *rest.Request,
	opts WriteOptions) (*metav1.PartialObjectMetadata, error) {
	if opts.Subresource != "" {
		req.SubResource(opts.Subresource)
	}
	if opts.FieldManager != "" {
		req.Param("fieldManager", opts.FieldManager)
	}
	made := &metav1.PartialObjectMetadata{}
	if err := w.do(ctx, w.accept(req, m, made)).Into(made); err != nil {
		return nil, err
	}
	return made, nil
}

// delete sends the options as JSON: the scheme has no version of them for the groups of custom resources.
func (w writer) delete(ctx context.Context, req *rest.Request, opts metav1.DeleteOptions) error {
	opts.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	data, err := json.Marshal(&opts)
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	return w.do(ctx, req.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data)).Error()
}

// named begins a request about one object.
func (r reader) named(verb string, m Mapping, key plan.Key) (*rest.Request, error) {
	if m.Namespaced && key.Namespace == "" {
		return nil, fmt.Errorf("%s %s %s: no namespace", verb, m.Resource, key.Name)
	}
	req, err := r.collection(verb, m, key.Namespace)
	if err != nil {
		return nil, err
	}
	return req.Name(key.Name), nil
}

// collection begins a request about all objects of a kind in a namespace. Only reading goes without where there is one.
func (r reader) collection(verb string, m Mapping, namespace string) (*rest.Request, error) {
	if m.Namespaced != (namespace != "") && (namespace != "" || verb != http.MethodGet) {
		return nil,
			fmt.Errorf("%s %s in namespace %q: they have namespaces: %v", verb, m.Resource, namespace, m.Namespaced)
	}
	client, err := r.clients.rest(m)
	if err != nil {
		return nil, err
	}
	return client.Verb(verb).NamespaceIfScoped(namespace, namespace != "").Resource(m.Resource), nil
}

// matching adds what a list is to have. Unlike VersionedParams it knows the options for every group.
func matching(req *rest.Request, o metav1.ListOptions) *rest.Request {
	return req.SpecificallyVersionedParams(&o, scheme.ParameterCodec, metav1.Unversioned)
}

// accept says in which form the answer is wanted. A server that cannot answer with metadata answers with the object, of
// which then the metadata is decoded.
func (r reader) accept(req *rest.Request, m Mapping, into runtime.Object) *rest.Request {
	const as = ";g=meta.k8s.io;v=v1;as="
	form := r.clients.contentType(m)
	switch into.(type) {
	case runtime.Unstructured:
		return req.SetHeader("Accept", runtime.ContentTypeJSON)
	case *metav1.PartialObjectMetadata:
		return req.SetHeader("Accept", form+as+"PartialObjectMetadata, "+form+", */*")
	case *metav1.PartialObjectMetadataList:
		return req.SetHeader("Accept", form+as+"PartialObjectMetadataList, "+form+", */*")
	}
	return req
}

// accessReviews is how questions about rights are addressed.
func accessReviews() Mapping {
	return MappingFor[*authorizationv1.SubjectAccessReview]()
}

// do makes one request, bounded in time. Client-go would repeat what the server puts off (429 with Retry-After) for
// as long as that takes, and a write would be carried out that was planned long before. Whoever has made the request
// decides again.
func (r reader) do(ctx context.Context, req *rest.Request) rest.Result {
	bound, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	if done := r.clients.options.OnRequestDone; done != nil {
		defer done(ctx)
	}
	return req.MaxRetries(0).Do(bound)
}
