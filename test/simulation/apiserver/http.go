package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Network is what lies between a client and the server.
type Network interface {
	// Send is called with each request on its way to the server. It may take time. An error ends the request there: an API
	// status is answered, anything else is an error of the connection.
	Send(context.Context, Request) error
	// Receive is called with each answer on its way back; err is what the server has answered. Its error takes the place
	// of the answer likewise.
	Receive(ctx context.Context, r Request, err error) error
	// Watching is called for each watch that begins, and returns when the network lets its events through.
	Watching(Request) Channel
}

// Request is what the network sees of a request.
type Request struct {
	Agent string // the user agent
	Verb  string // get, list, watch, or that of a write

	Resource, Subresource, Namespace, Name string
}

// Write reports whether it is one that may change something.
func (r Request) Write() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// Client is how a client reaches the server: what its rest.Config has as Transport.
type Client struct {
	Server  *Server
	Name    string                                // as in Write.By
	Network Network                               // nil for one that does nothing
	Served  func(by string, r Request, err error) // told of each answer, if it is not nil
}

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if req.URL.Path == "/healthz" {
		return answer(req, http.StatusOK, "text/plain", []byte("ok")), nil
	}
	r, err := parse(req)
	if err != nil {
		return c.fail(req, err)
	}
	if c.Network != nil {
		if err := c.Network.Send(req.Context(), r.Request); err != nil {
			return c.fail(req, err)
		}
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if r.Verb == "watch" {
		return c.watch(req, r)
	}
	code, o, err := c.serve(r, req, body)
	if c.Served != nil {
		c.Served(c.Name, r.Request, err)
	}
	if c.Network != nil {
		if err := c.Network.Receive(req.Context(), r.Request, err); err != nil {
			return c.fail(req, err)
		}
	}
	if err != nil {
		return c.fail(req, err)
	}
	return c.encode(req, code, o)
}

// fail answers with a status, or breaks the connection.
func (c *Client) fail(req *http.Request, err error) (*http.Response, error) {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return nil, err
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	res, err := c.encode(req, int(s.Code), &s)
	if err == nil && s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		res.Header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	return res, err
}

// request is a request with what only the server needs.
type request struct {
	Request
	list metav1.ListOptions
}

// parse reads method and path: /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE, and the like.
func parse(req *http.Request) (request, error) {
	r := request{Request: Request{Agent: req.UserAgent()}}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) < 3 {
		return r, unknownPath(req)
	}
	if parts = parts[2:]; req.URL.Path[:5] == "/apis" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&r.Resource, &r.Name, &r.Subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	if err := parseQuery(req.URL.Query(), &r.list); err != nil {
		return r, apierrors.NewBadRequest(err.Error())
	}
	switch req.Method {
	case http.MethodGet:
		r.Verb = "get"
		if r.Name == "" {
			r.Verb = "list"
			if r.list.Watch {
				r.Verb = "watch"
			}
		}
	case http.MethodPost:
		r.Verb = string(Create)
	case http.MethodPut:
		r.Verb = string(Update)
	case http.MethodPatch:
		r.Verb = string(Patch)
	case http.MethodDelete:
		r.Verb = string(Delete)
	default:
		return r, unknownPath(req)
	}
	return r, nil
}

func parseQuery(query url.Values, into *metav1.ListOptions) error {
	if len(query) == 0 {
		return nil
	}
	return scheme.ParameterCodec.DecodeParameters(query, metav1.Unversioned, into)
}

func unknownPath(req *http.Request) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, metav1Resource(req.URL.Path), "", "the server could not find the requested resource", 0, true)
}

// serve carries out a request that is no watch.
func (c *Client) serve(r request, req *http.Request, body []byte) (code int, o runtime.Object, err error) {
	st := c.Server.stores[r.Resource]
	if st == nil {
		return 0, nil, unknownPath(req)
	}
	code = http.StatusOK
	switch r.Verb {
	case "get":
		o, err = c.Server.Get(r.Resource, r.Namespace, r.Name)
		return code, o, err
	case "list":
		o, err = c.Server.list(st, r)
		return code, o, err
	}
	w, err := c.readWrite(st, r, req, body)
	if err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	did := c.Server.perform(w)
	switch {
	case did.Err != nil:
		return 0, nil, did.Err
	case did.Before == nil:
		code = http.StatusCreated
	case w.Verb == Delete && !st.answered && len(did.After.GetFinalizers()) == 0:
		return code, deleted(st, did.After), nil
	}
	return code, did.After, nil
}

func (c *Client) readWrite(st *store, r request, req *http.Request, body []byte) (w Write, err error) {
	w = Write{By: c.Name, Agent: r.Agent, Verb: Verb(r.Verb), Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
	switch w.Verb {
	case Create, Update:
		w.Object = st.New()
		err = decode(body, w.Object)
	case Patch:
		w.Patch, w.PatchType = body, types.PatchType(req.Header.Get("Content-Type"))
	case Delete:
		if len(body) > 0 {
			err = decode(body, &w.Options)
		}
	}
	return w, err
}

// deleted is the answer to a deletion that has left nothing.
func deleted(st *store, o Object) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: o.GetName(), Group: st.Group, Kind: st.Resource, UID: o.GetUID()}}
}

func decode(body []byte, into runtime.Object) error {
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	return err
}

// list returns the objects that a list asks for. A list that is content with any version is given the newest.
func (s *Server) list(st *store, r request) (runtime.Object, error) {
	matches, err := selection(r.list)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, err := strconv.ParseUint(r.list.ResourceVersion, 10, 64); err == nil && v > s.version {
		return nil, tooNew(v, s.version)
	}
	var items []runtime.Object
	for _, key := range st.keys() {
		if o := st.objects[key]; (r.Namespace == "" || o.GetNamespace() == r.Namespace) && matches(o) {
			items = append(items, o)
		}
	}
	list := st.list()
	if err := meta.SetList(list, items); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error { // they are copies
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	})
	list.GetObjectKind().SetGroupVersionKind(st.GroupVersion().WithKind(st.GroupVersionKind.Kind + "List"))
	list.(metav1.ListInterface).SetResourceVersion(strconv.FormatUint(s.version, 10))
	return list, nil
}

func tooNew(asked, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// selection returns the test of the selectors of a list or watch.
func selection(o metav1.ListOptions) (func(Object) bool, error) {
	byLabels, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	byFields, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil, err
	}
	return func(o Object) bool {
		return byLabels.Matches(labels.Set(o.GetLabels())) && (byFields.Empty() || byFields.Matches(fieldsOf(o)))
	}, nil
}

// encode answers with an object in the form that is asked for.
func (c *Client) encode(req *http.Request, code int, o runtime.Object) (*http.Response, error) {
	mediaType, params := c.accepted(req)
	if params["as"] != "" && code < 300 {
		o = asMetadata(o)
	}
	e := c.Server.encodings[mediaType]
	body, err := runtime.Encode(e.object, o)
	if err != nil {
		return nil, err
	}
	return answer(req, code, mediaType, body), nil
}

// accepted is the form of answer that the client likes best.
func (c *Client) accepted(req *http.Request) (mediaType string, params map[string]string) {
	first, _, _ := strings.Cut(req.Header.Get("Accept"), ",")
	mediaType, params, err := mime.ParseMediaType(first)
	if _, ok := c.Server.encodings[mediaType]; !ok || err != nil {
		mediaType = runtime.ContentTypeJSON
	}
	return mediaType, params
}

// asMetadata leaves of an object, or the objects of a list, nothing but the metadata.
func asMetadata(o runtime.Object) runtime.Object {
	if object, ok := o.(Object); ok {
		m := meta.AsPartialObjectMetadata(object)
		m.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return m
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	if l, ok := o.(metav1.ListInterface); ok {
		list.ResourceVersion = l.GetResourceVersion()
	}
	_ = meta.EachListItem(o, func(item runtime.Object) error {
		if object, ok := item.(Object); ok {
			list.Items = append(list.Items, *meta.AsPartialObjectMetadata(object))
		}
		return nil
	})
	return list
}

func answer(req *http.Request, code int, mediaType string, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {mediaType}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}
