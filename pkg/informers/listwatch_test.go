package informers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// The activity of other kinds is noted by the name of the resource.
func TestActivityOfResources(t *testing.T) {
	client := must(listwatch.NewClient(&rest.Config{Host: "http://api", QPS: -1, Transport: awayUntil{}}, sample))
	f := NewFactory(client, 0)
	must(Nodes(f))
	must(OwnedObjects[*appsv1.ReplicaSet](f))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	f.StartWithContext(ctx)
	for _, resource := range []string{"nodes", "replicasets.apps"} {
		eventually(t, func() bool { return !client.Liveness().Of(resource).LastActivity().IsZero() })
	}
	if !client.Liveness().Of("deployments.apps").LastActivity().IsZero() {
		t.Error("deployments are not watched")
	}
}

// With a client that decodes in part, the informer of pods is that of the factory, too.
func TestThereIsOneInformerOfPods(t *testing.T) {
	f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample)), 0)
	if must(Pods(f)).Informer().GetIndexer() != f.Core().V1().Pods().Informer().GetIndexer() {
		t.Error("two informers of pods")
	}
}

func TestAllStarted(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	if _, err := Objects[*corev1.Service](f); err != nil {
		t.Fatal(err)
	}
	if _, err := OwnedObjects[*appsv1.ReplicaSet](f); err != nil {
		t.Fatal(err)
	}
	if all := CacheStatuses(f); len(all) != 0 {
		t.Errorf("before the start: %v", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	all := CacheStatuses(f)
	if len(all) != 2 || all[0].Resource != "replicasets.apps" || all[1].Resource != "services" ||
		all[0].Informer.GetIndexer() != f.Apps().V1().ReplicaSets().Informer().GetIndexer() {
		t.Errorf("%+v", all)
	}
}

// The caches of this package have the handler: a server that says no leads to one line, not to a stack of them.
func TestCachesLogQuietly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: server.URL}, sample)), 0)
	must(Pods(f))
	logger, buffer := buffered(t)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	eventually(t, func() bool { return strings.Contains(buffer.String(), "A cache cannot be kept up to date") })
	if strings.Contains(buffer.String(), "Failed to watch") {
		t.Error(buffer.String())
	}
}

// awayUntil is an API server with one Deployment, as a transport sees it, that cannot be reached for a while.
type awayUntil struct{ time.Time }

func (s awayUntil) RoundTrip(r *http.Request) (*http.Response, error) {
	if time.Now().Before(s.Time) {
		return nil, errAway
	}
	answer := func(code int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
	switch q := r.URL.Query(); {
	case q.Get("sendInitialEvents") != "":
		return answer(http.StatusUnprocessableEntity,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.Get("watch") != "":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case strings.HasSuffix(r.URL.Path, "/deployments"):
		return answer(http.StatusOK, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"namespace":"shop","name":"web"}}]}`)
	}
	return answer(http.StatusOK, `{"metadata":{"resourceVersion":"1"}}`)
}

// The caches of all kinds retry: a list that fails is repeated soon, not after the pauses of client-go.
func TestCachesRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Minute)
		f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api", QPS: -1, Transport: awayUntil{until}}, sample)), 0)
		deployments := must(Objects[*appsv1.Deployment](f))
		must(OwnedObjects[*appsv1.ReplicaSet](f))
		must(Services(f))
		must(Objects[*batchv1.Job](f))
		must(Nodes(f))
		ctx, cancel := context.WithCancel(t.Context())
		defer f.Shutdown()
		defer cancel()
		f.StartWithContext(ctx)
		f.WaitForCacheSync(ctx.Done())
		if late := time.Since(until); late > 8*time.Second {
			t.Errorf("filled %v after the outage", late)
		}
		if deployments.Get("shop", "web") == nil {
			t.Error("no Deployment")
		}
	})
}

// Objects of kinds without namespaces are found by their name alone.
func TestObjectsWithoutNamespaces(t *testing.T) {
	namespaces := must(Objects[*corev1.Namespace](NewFactory(fake.NewClientset(), 0)))
	must[any](nil, namespaces.Informer().GetIndexer().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	if namespaces.Get("", "shop") == nil || namespaces.Get("", "bank") != nil {
		t.Error("the namespace shop is not found, or another one is")
	}
}

// A kind that client-go does not know has no cache.
func TestUnknownKind(t *testing.T) {
	type unknown struct{ corev1.Pod }
	if _, err := Objects[*unknown](NewFactory(fake.NewClientset(), 0)); err == nil {
		t.Error("no error")
	}
}

var errAway = errors.New("connection refused")

func buffered(t *testing.T) (klog.Logger, fmt.Stringer) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	return logger, logger.GetSink().(ktesting.Underlier).GetBuffer()
}
