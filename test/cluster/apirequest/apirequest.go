// Package apirequest reads from method and path what a client asks of an API server. Proxies between the two use it.
package apirequest

import (
	"net/http"
	"strconv"
	"strings"
)

// Request is what a client asks for.
type Request struct {
	// Verb is as in RBAC: get, list, watch, create, update, patch, delete, deletecollection. For a path that is not one of
	// the resource API it is the HTTP method in lower case.
	Verb        string
	Group       string
	Resource    string // empty if the path is not one of the resource API
	Subresource string
	Namespace   string
	Name        string
}

// Parse reads method and path as the API server does.
func Parse(r *http.Request) Request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		return ofResource(r, "", parts[2:])
	case len(parts) > 3 && parts[0] == "apis":
		return ofResource(r, parts[1], parts[3:])
	}
	return Request{Verb: strings.ToLower(r.Method)}
}

// ofResource reads [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]].
func ofResource(r *http.Request, group string, parts []string) Request {
	request := Request{Group: group}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		request.Namespace, parts = parts[1], parts[2:]
	}
	request.Resource = parts[0]
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	if len(parts) > 2 {
		request.Subresource = parts[2]
	}
	request.Verb = verb(r, request.Name != "")
	return request
}

// Selection is what tells two watches of a resource apart: the selectors, the scope and the form of the answer, such as metadata
// alone.
func Selection(r *http.Request) string {
	query := r.URL.Query()
	return strings.Join([]string{r.URL.Path, query.Get("labelSelector"), query.Get("fieldSelector"), r.Header.Get("Accept")}, " ")
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

// IsWrite tells whether the request is one that changes, or would have changed, what is stored. Reviews and token requests
// are created, but never stored.
func (r Request) IsWrite() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	switch {
	case r.Resource == "":
		return false
	case r.Group == "authentication.k8s.io", r.Group == "authorization.k8s.io":
		return false
	case r.Resource == "serviceaccounts" && r.Subresource == "token":
		return false
	}
	return true
}

// IsNoise tells whether the request concerns events or leases, whose number depends on time.
func (r Request) IsNoise() bool {
	return r.Resource == "events" || r.Resource == "leases"
}
