package apiserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// Webhook returns what a creation waits for after the server has looked whether the namespace takes it, and before the object is
	// stored; nil if for nothing.
	Webhook(Request) func(context.Context) error
	// Watching is called for each watch that begins, and returns when the network lets its events through.
	Watching(Request) Channel
}

// Request is what the network sees of a request.
type Request struct {
	Agent string // the user agent
	Verb  string // get, list, watch, or that of a write

	Resource, Subresource, Namespace, Name string

	Selection string // of a watch, as apirequest.Selection has it
}

// Write reports whether it is one that may change something.
func (r Request) Write() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// Client is how a client reaches the server: what its rest.Config has as Transport.
type Client struct {
	Server  *Server
	Name    string                                // as in Write.By
	Network Network                               // nil for one that does nothing
	Served  func(by string, r Request, err error) // told of each answer, if it is not nil
	// Refuse, if it is not nil, is asked about each write before it is carried out. Its error is the answer, as that of [Network.Send] is.
	Refuse func(context.Context, Write) error
}

// barred is the error of a write that was refused by [Client.Refuse].
type barred struct{ error }

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
	r, err := c.parse(req)
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
	if r.metrics {
		return c.Server.metrics(req)
	}
	code, o, err := c.serve(r, req, body)
	if refused, ok := err.(barred); ok {
		return c.fail(req, refused.error)
	}
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
	store   *store // nil for what is no resource
	metrics bool   // it is one to a metrics API
	list    metav1.ListOptions
}

// parse reads method and path: /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE, and the like.
func (c *Client) parse(req *http.Request) (request, error) {
	r := request{Request: Request{Agent: req.UserAgent(), Verb: "get"}}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var version schema.GroupVersion
	switch {
	case isMetrics(req.URL.Path):
		r.Verb, r.Resource, r.metrics = "list", "metrics", true
		return r, nil
	case len(parts) > 2 && parts[0] == "api":
		version, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		version, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return r, nil
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&r.Resource, &r.Name, &r.Subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	if r.store = c.Server.paths[version.WithResource(r.Resource)]; r.store != nil {
		r.Resource = r.store.key
	}
	if err := parseQuery(req.URL.Query(), &r.list); err != nil {
		return r, apierrors.NewBadRequest(err.Error())
	}
	r.Verb = verbOf(req.Method, r)
	if r.Verb == "" || r.store == nil && r.Resource != reviews {
		return r, unknownPath(req.Method, req.URL.Path)
	}
	return r, nil
}

// verbOf is what authorization calls a method, empty if there is none.
func verbOf(method string, r request) string {
	switch method {
	case http.MethodGet:
		switch {
		case r.list.Watch:
			return "watch"
		case r.Name == "":
			return "list"
		}
		return "get"
	case http.MethodPost:
		return string(Create)
	case http.MethodPut:
		return string(Update)
	case http.MethodPatch:
		return string(Patch)
	case http.MethodDelete:
		if r.Name == "" {
			return string(DeleteCollection)
		}
		return string(Delete)
	}
	return ""
}

func parseQuery(query url.Values, into *metav1.ListOptions) error {
	if len(query) == 0 {
		return nil
	}
	return scheme.ParameterCodec.DecodeParameters(query, metav1.Unversioned, into)
}

func unknownPath(method, path string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, method, schema.GroupResource{Resource: path}, "",
		"the server could not find the requested resource", 0, false)
}

func answer(req *http.Request, code int, mediaType string, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {mediaType}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}
