package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Request is what the rules of a script match on.
type Request struct {
	// Verb is as in RBAC: get, list, watch, create, update, patch, delete, deletecollection. It is "event" for an event
	// that a watch delivers, and the HTTP method for a path that is not one of the resource API.
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string // of an event: that of its object; of a creation: that of the object, if it is not generated
	Agent       string // the client's user agent
}

// String is the request in one line, as the log has it.
func (r Request) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.Verb + " " + r.path() + " " + name
}

// path is the resource with its subresource, if it has one.
func (r Request) path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// IsWrite tells whether the request changes what controllers work on. Events, leases, reviews and tokens don't count:
// their number depends on time.
func (r Request) IsWrite() bool {
	if !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) {
		return false
	}
	switch r.Resource {
	case "", "events", "leases", "serviceaccounts", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews":
		return false
	}
	return true
}

// clusterScoped are the resources that managers ask for and that belong to no namespace.
var clusterScoped = []string{"nodes", "namespaces", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"}

// parseRequest reads method and path as the API server does. If only is not empty, a list or watch of all namespaces
// becomes one of that namespace, in r's URL too.
func parseRequest(r *http.Request, only string) Request {
	request := Request{Verb: strings.ToLower(r.Method), Agent: r.UserAgent()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	prefix := 0 // how many parts come before the resource
	switch {
	case len(parts) > 2 && parts[0] == "api":
		prefix = 2
	case len(parts) > 3 && parts[0] == "apis":
		request.Group, prefix = parts[1], 3
	default:
		return request
	}
	rest := parts[prefix:]
	if len(rest) > 2 && rest[0] == "namespaces" && rest[2] != "status" && rest[2] != "finalize" {
		request.Namespace, rest = rest[1], rest[2:]
	}
	request.Resource = rest[0]
	if len(rest) > 1 {
		request.Name = rest[1]
	}
	if len(rest) > 2 {
		request.Subresource = rest[2]
	}
	request.Verb = verb(r, request.Name != "")
	all := request.Namespace == "" && request.Name == "" && (request.Verb == "list" || request.Verb == "watch")
	if only != "" && all && !slices.Contains(clusterScoped, request.Resource) {
		request.Namespace = only
		scoped := slices.Concat(parts[:prefix], []string{"namespaces", only}, parts[prefix:])
		r.URL.Path, r.URL.RawPath = "/"+strings.Join(scoped, "/"), ""
	}
	return request
}

func verb(r *http.Request, named bool) string {
	watch, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	case http.MethodGet, http.MethodHead:
		if watch {
			return "watch"
		}
		if named {
			return "get"
		}
		return "list"
	}
	return strings.ToLower(r.Method)
}
