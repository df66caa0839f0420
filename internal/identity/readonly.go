package identity

import (
	"net/http"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// ReadOnly wraps the transport of a client so that it cannot write: whatever is not a GET or HEAD fails with
// [client.ErrReadOnly], and nothing is sent. Reviews are an exception, as the API server only answers them and stores
// nothing.
func ReadOnly(next http.RoundTripper) http.RoundTripper { return &readOnly{next} }

type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r *readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead && !isReview(req) {
		closeBody(req)
		return nil, client.ErrReadOnly
	}
	return r.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport inside.
func (r *readOnly) WrappedRoundTripper() http.RoundTripper { return r.next }

// reviews are the resources of which an object is a question.
var reviews = []string{
	"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews",
	"authorization.k8s.io/selfsubjectaccessreviews",
}

// isReview reports whether a request asks the API server who somebody is, or what somebody may do.
func isReview(req *http.Request) bool {
	parts := strings.Split(req.URL.Path, "/") // .../apis/GROUP/VERSION/RESOURCE; the API may be below a path
	n := len(parts)
	return req.Method == http.MethodPost && n >= 4 && parts[n-4] == "apis" &&
		slices.Contains(reviews, parts[n-3]+"/"+parts[n-1])
}
