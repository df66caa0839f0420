package identity

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// What only observes sends reads and reviews, whatever path the API is below.
func TestReadOnly(t *testing.T) {
	for _, c := range []struct {
		method, path string
		sent         bool
	}{
		{"GET", "/api/v1/pods", true},
		{"HEAD", "/healthz", true},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", true},
		{"POST", "/clusters/one/apis/authentication.k8s.io/v1/tokenreviews", true},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},

		{"POST", "/api/v1/namespaces/shop/pods", false},
		{"PUT", "/apis/authorization.k8s.io/v1/subjectaccessreviews", false},
		{"POST", "/apis/example.com/v1/subjectaccessreviews", false},
		{"POST", "/apis/authorization.k8s.io/v1/namespaces/subjectaccessreviews/pods", false},
		{"POST", "/api/v1/namespaces/kube-system/serviceaccounts/a/token", false},
		{"POST", "/subjectaccessreviews", false},
		{"PUT", "/api/v1/namespaces/shop/pods/web", false},
		{"PATCH", "/api/v1/namespaces/shop/pods/web", false},
		{"DELETE", "/api/v1/namespaces/shop/pods/web", false},
		{"CONNECT", "/api/v1/namespaces/shop/pods/web/exec", false},
		{"get", "/api/v1/pods", false}, // methods have letters of one size
	} {
		sent := false
		next := roundTripper(func(*http.Request) (*http.Response, error) {
			sent = true
			return &http.Response{StatusCode: http.StatusOK}, nil
		})
		req, err := http.NewRequest(c.method, "https://server"+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadOnly(next).RoundTrip(req)
		if sent != c.sent || errors.Is(err, client.ErrReadOnly) == c.sent {
			t.Errorf("%s %s: sent %v, %v", c.method, c.path, sent, err)
		}
	}
}
