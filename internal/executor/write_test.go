package executor

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		verb string
		err  error
		want string
	}{
		{"create", nil, "201"},
		{"delete", nil, "200"},
		{"patch", fmt.Errorf("wrapped: %w", apierrors.NewConflict(appsv1.Resource("pods"), "a", nil)), "409"},
		{"create", apierrors.NewGenericServerResponse(http.StatusBadGateway, "post", appsv1.Resource("pods"), "a", "", 0, true), "502"},
		{"update", context.DeadlineExceeded, "<error>"},
	} {
		if got := codeOf(c.verb, c.err); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.verb, c.err, got, c.want)
		}
	}
}
