package metadata

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/paging"
)

// endless makes each list go on for ever, with so many tokens.
type endless struct {
	tokens int32
	items  string
	asked  atomic.Int32
}

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK,
		fmt.Sprintf(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9","continue":"%d"},"items":[%s]}`,
			e.asked.Add(1)%e.tokens, e.items)
	if r.URL.Query().Get("watch") != "" {
		code, body = http.StatusBadRequest, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400}`
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A server that makes its lists go on for ever is not followed, and its lists prove nothing.
func TestListsWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &endless{tokens: 3}
		i := New(must(metadata.NewForConfig(&rest.Config{Host: "http://api", QPS: -1, Transport: server})))
		defer i.Shutdown()
		if _, err := i.List(t.Context(), widgets, "shop"); !errors.Is(err, paging.ErrEndless) || server.asked.Load() != 4 {
			t.Errorf("%d requests: %v", server.asked.Load(), err)
		}
		if some, err := i.Any(t.Context(), widgets); err == nil {
			t.Errorf("a list that shows nothing, and has more: there are some: %t", some)
		}
		server.asked.Store(0)
		sub := i.Subscribe(nobody)
		sub.SetResources(t.Context(), resources{widgets})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := server.asked.Load(); n > 400 || n < 4 {
			t.Errorf("%d requests in ten minutes", n)
		}
		if states := i.States(); len(states) != 1 || states[0].Synced {
			t.Errorf("%+v", states)
		}
	})
}
