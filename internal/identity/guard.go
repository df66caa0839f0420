package identity

import (
	"context"
	"net/http"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// guard refuses writes at the last moment before they are sent.
type guard struct {
	next   http.RoundTripper
	before func(ctx context.Context) error // waits; nil if there is nothing to wait for
	// may says whether this process may write to a namespace; "" stands for what belongs to the cluster.
	may func(namespace string) bool
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		if err := g.mayWrite(req); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	return g.next.RoundTrip(req)
}

// mayWrite returns an error if a write may not be sent.
func (g *guard) mayWrite(req *http.Request) error {
	if g.before != nil {
		if err := g.before(req.Context()); err != nil {
			return err
		}
	}
	if !g.may(namespaceOf(req.URL.Path)) {
		return client.ErrNotLeading
	}
	return nil
}

// WrappedRoundTripper lets client-go find the transport inside.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// closeBody does what a RoundTripper owes its caller when it sends nothing.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
