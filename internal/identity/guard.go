package identity

import (
	"net/http"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// guard refuses writes at the last moment before they are sent.
type guard struct {
	next http.RoundTripper
	may  func(namespace string) bool
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	if !read && !g.may(namespaceOf(req.URL.Path)) {
		closeBody(req)
		return nil, client.ErrNotLeading
	}
	return g.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport inside.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// closeBody does what a RoundTripper owes its caller when it sends nothing.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
