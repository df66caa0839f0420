package client

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsAbsent(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"the object": {apierrors.NewNotFound(pods, "a"), true},
		"a page of a load balancer": {apierrors.NewGenericServerResponse(404, "get", pods, "a", "404 page not found", 0, true),
			false},
		"a server that does not serve the path": {apierrors.NewGenericServerResponse(404, "get", pods, "a", "", 0, true), false},
		"a webhook": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Code: 404, Reason: metav1.StatusReasonNotFound,
			Message: `admission webhook "w.example.com" denied the request: pods "a" not found`,
			Details: &metav1.StatusDetails{Name: "a", Kind: "pods"},
		}}, false},
		"another answer": {apierrors.NewConflict(pods, "a", errors.New("x")), false},
		"no answer":      {errors.New("x"), false},
		"no error":       {nil, false},
	} {
		if got := IsAbsent(c.err); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
