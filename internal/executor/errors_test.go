package executor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestAnswered(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"done", nil, true},
		{"conflict", apierrors.NewConflict(pods, "p", nil), true},
		{"forbidden", apierrors.NewForbidden(pods, "p", nil), true},
		{"too many requests", apierrors.NewTooManyRequests("wait", 1), true},
		{"server time-out", apierrors.NewTimeoutError("slow", 1), false},
		{"internal error", apierrors.NewInternalError(errors.New("etcd")), false},
		{"it is starting", apierrors.NewServiceUnavailable("starting"), true},
		{"a proxy in front of it has no answer", apierrors.NewGenericServerResponse(503, "POST", pods, "", "upstream reset", 0, true),
			false},
		{"client time-out", context.DeadlineExceeded, false},
		{"broken connection", &net.OpError{Op: "read", Err: errors.New("reset")}, false},
		{"no connection: the next server may have been restored",
			fmt.Errorf("post: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), false},
		{"stale", plan.ErrStale, true},
		{"LE-14 not leading", client.ErrNotLeading, true},
		{"LE-14 not leading, says the transport", &url.Error{Op: "Post", URL: "https://api", Err: client.ErrNotLeading}, true},
		{"broken connection, says the transport", &url.Error{Op: "Post", URL: "https://api", Err: errors.New("reset")}, false},
	} {
		if got := Answered(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
