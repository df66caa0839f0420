package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
)

// leasing is an API server in virtual time that has one lease, and nothing else.
type leasing struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
}

func (s *leasing) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, answer := http.StatusForbidden, any(map[string]string{})
	switch path := r.URL.Path; {
	case path == "/healthz":
		status = http.StatusOK
	case !strings.Contains(path, "/leases"), r.URL.Query().Get("watch") != "":
	case r.Method == http.MethodGet && s.lease == nil:
		status, answer = http.StatusNotFound, map[string]any{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}
	case r.Method == http.MethodGet:
		status, answer = http.StatusOK, s.lease
	default:
		s.version++
		s.lease = &coordinationv1.Lease{}
		if err := json.NewDecoder(r.Body).Decode(s.lease); err != nil {
			return nil, err
		}
		s.lease.ResourceVersion = fmt.Sprint(s.version)
		s.lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
		status, answer = http.StatusOK, s.lease
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}}, err
}

// said returns an annotation of the lease.
func (s *leasing) said(annotation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.Annotations[annotation]
}

// What the brake of a controller holds, that of the next leader knows before the controller begins.
func TestTheNextLeaderKnowsWhatABrakeHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &leasing{}
		lead := func(work func(ctx context.Context, b *brake.Brake)) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			worker := fakeWorker{runs: make(chan struct{})}
			o := options(Controller{Name: "a", Account: "a", Init: func(c Context) (Runner, error) {
				worker.end = func(ctx context.Context) error { work(ctx, c.Brake); return nil }
				return worker, nil
			}})
			o.LeaderElect, o.ContentType = true, "application/json"
			if err := run(ctx,
				&rest.Config{Host: "http://api", Transport: server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
				o); err != nil {
				t.Error(err)
			}
		}
		lead(func(ctx context.Context, b *brake.Brake) {
			b.Hold(time.Now(), "all", "a reason")
			<-ctx.Done()
			b.Release("all", brake.NothingLeft)
			time.Sleep(4 * time.Second) // while the lease is renewed
		})
		if said := server.said("controller-manager/brakes"); !strings.Contains(said, `"controller":"a","what":"all"`) {
			t.Errorf("the lease says %q", said)
		}
		inherited := false
		lead(func(ctx context.Context, b *brake.Brake) {
			_, inherited = b.Inherited(time.Now(), "all")
			<-ctx.Done()
		})
		if !inherited {
			t.Error("the next leader does not know")
		}
	})
}
