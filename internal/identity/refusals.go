package identity

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/internal/health"
)

// Refusals notes what the API server refuses of single objects; what it refuses of lists and watches is known to the
// caches. The zero value is ready for use.
type Refusals struct{ health.Refusals }

// Wrap is a wrapper for the transport of a client whose refusals count.
func (r *Refusals) Wrap(next http.RoundTripper) http.RoundTripper {
	return &refusalObserver{next, r, false}
}

// WrapWrites is Wrap for a client of which only writes count: some of what it reads is served by others than the API
// server.
func (r *Refusals) WrapWrites(next http.RoundTripper) http.RoundTripper {
	return &refusalObserver{next, r, true}
}

// note remembers whether the request was refused.
func (r *Refusals) note(of *http.Request, answer *http.Response) {
	verb, resource := verbOf(of.Method), resourceOf(of.URL.Path)
	if refused(of, answer) {
		r.Refused(of.Context(), verb, resource, answer.StatusCode)
	} else {
		r.Allowed(verb, resource)
	}
}

// refused reports whether an answer says that the identity is not valid or lacks a right. Admission also answers 403 to
// writes, as when a quota is exhausted, and webhooks answer what they like; that is about the object. Only the text
// distinguishes the two.
func refused(of *http.Request, answer *http.Response) bool {
	if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return false
	}
	if of.Method == http.MethodGet {
		return true
	}
	status, ok := decoded(take(answer))
	if answer.StatusCode == http.StatusUnauthorized {
		return !ok || !strings.HasPrefix(status.Message, `admission webhook "`)
	}
	return ok && status.Reason == metav1.StatusReasonForbidden && lacksRight(of.URL.Path, status.Message)
}

// lacksRight reports whether the API server says that a user lacks the right to a request. It does so about the
// resource and the name in the path, so that a new object, which has no name there yet, cannot forge it by its name.
// What admission says of an object continues otherwise, and quotes users of the cluster, who write there what they
// like.
func lacksRight(path, message string) bool {
	group, parts := split(path)
	if parts = ofNamespace(parts); len(parts) == 1 {
		parts = append(parts, "")
	}
	resource := schema.GroupResource{Group: strings.TrimPrefix(group, "."), Resource: parts[0]}
	begins := apierrors.NewForbidden(resource, parts[1], errors.New("")).ErrStatus.Message + "User "
	rest, ok := strings.CutPrefix(message, begins)
	return ok && lacks.MatchString(rest)
}

// lacks is how the API server continues after "User".
var lacks = regexp.MustCompile(`^"[^"]*" cannot [a-z*]+ resource "`)

// decoded returns the status of an answer, in JSON or protobuf.
func decoded(body []byte) (*metav1.Status, bool) {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	status, ok := o.(*metav1.Status)
	return status, ok && err == nil
}

// refusalObserver is a transport that notes which requests are refused.
type refusalObserver struct {
	next     http.RoundTripper
	refusals *Refusals
	writes   bool // only
}

// WrappedRoundTripper lets client-go find the transport inside.
func (o *refusalObserver) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements http.RoundTripper.
func (o *refusalObserver) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err == nil && !(o.writes && r.Method == http.MethodGet) {
		o.refusals.note(r, answer)
	}
	return answer, err
}

// verbOf returns the API's verb for a request about one object.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodDelete:
		return "delete"
	case http.MethodPatch:
		return "patch"
	case http.MethodGet:
		return "get"
	}
	return "update"
}

// split takes a path to pieces: the group of the API, with a dot before it, and what follows the version.
func split(path string) (group string, parts []string) {
	parts = strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" }); i > 0 {
		parts = parts[i:] // the server is behind a path
	}
	switch {
	case parts[0] == "apis" && len(parts) > 3:
		return "." + parts[1], parts[3:]
	case parts[0] == "api" && len(parts) > 2:
		return "", parts[2:]
	}
	return "", parts
}

// ofNamespace takes the namespace off a path, unless the path is that of the Namespace itself.
func ofNamespace(parts []string) []string {
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		return parts[2:]
	}
	return parts
}

// resourceOf returns the resource of a request with its group and subresource, without the names of objects.
func resourceOf(path string) string {
	group, parts := split(path)
	parts = ofNamespace(parts)
	resource := parts[0] + group
	if len(parts) > 2 {
		resource += "/" + strings.Join(parts[2:], "/")
	}
	return resource
}

// namespaceOf returns the namespace that a request is about, or the name of the Namespace; "" if it is about the
// whole cluster.
func namespaceOf(path string) string {
	if _, parts := split(path); parts[0] == "namespaces" && len(parts) > 1 {
		return parts[1]
	}
	return ""
}
