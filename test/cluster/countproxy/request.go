package countproxy

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Request is a kind of request: all that are equal are counted together.
type Request struct {
	Verb        string // as in RBAC: get, list, watch, create, update, patch, delete, deletecollection; or the HTTP method
	Group       string
	Resource    string // empty if the path is not one of the resource API
	Subresource string
	Code        int // HTTP status
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

// isNoise tells whether the request concerns events or leases, whose number depends on time.
func (r Request) isNoise() bool {
	return r.Resource == "events" || r.Resource == "leases"
}

// streams tells whether the response may go on for long.
func (r Request) streams() bool {
	switch r.Subresource {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return false
}

// parseRequest reads method and path as the API server does.
func parseRequest(r *http.Request) Request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
		return resourceRequest(r, "", parts)
	case len(parts) > 3 && parts[0] == "apis":
		return resourceRequest(r, parts[1], parts[3:])
	}
	return Request{Verb: strings.ToLower(r.Method)}
}

// resourceRequest reads [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]].
func resourceRequest(r *http.Request, group string, parts []string) Request {
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	request := Request{Group: group, Resource: parts[0]}
	if len(parts) > 2 {
		request.Subresource = parts[2]
	}
	request.Verb = verb(r, len(parts) > 1)
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

// protobufPrefix begins every object in Kubernetes' protobuf format.
var protobufPrefix = []byte("k8s\x00")

// resourceVersion reads the version of the object in a body, JSON or protobuf. It is zero if there is none.
func resourceVersion(header http.Header, body []byte) uint64 {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return 0
	}
	// Every object has its metadata in the same place, so this type does for all of them.
	var object metav1.PartialObjectMetadata
	switch mediaType {
	case runtime.ContentTypeJSON:
		if json.Unmarshal(body, &object) != nil || object.Kind == "Status" {
			return 0
		}
	case runtime.ContentTypeProtobuf:
		var envelope runtime.Unknown
		raw, ok := bytes.CutPrefix(body, protobufPrefix)
		if !ok || envelope.Unmarshal(raw) != nil || envelope.Kind == "Status" || object.Unmarshal(envelope.Raw) != nil {
			return 0
		}
	default:
		return 0
	}
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
