package informers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

var errAway = errors.New("connection refused")

// outage fails until it is over.
type outage struct {
	err   error
	until time.Time
	tries []time.Time
}

func (f *outage) try(context.Context, metav1.ListOptions) (string, error) {
	f.tries = append(f.tries, time.Now())
	if time.Now().Before(f.until) {
		return "", f.err
	}
	return "here", nil
}

func TestRetriesWhileTheServerIsAway(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		most time.Duration // after the outage
	}{
		{"nobody answers", errAway, 8 * time.Second},
		{"not ready", apierrors.NewServiceUnavailable("starting"), 8 * time.Second},
		{"error of its own", apierrors.NewInternalError(errAway), 8 * time.Second},
		{"too many requests, and how long to wait", apierrors.NewTooManyRequests("busy", 20), 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasts = 10 * time.Minute
				f := &outage{err: c.err, until: time.Now().Add(lasts)}
				got, err := retry(t.Context(), &errorLimiter{}, metav1.ListOptions{}, f.try)
				if got != "here" || err != nil {
					t.Fatalf("got %q, %v", got, err)
				}
				if late := time.Since(f.until); late > c.most {
					t.Errorf("back %v after the outage", late)
				}
				if n := len(f.tries); n > int(lasts/(longestPause))+10 {
					t.Errorf("%d tries in %v", n, lasts)
				}
			})
		})
	}
}

func TestLastingErrorsAreReturned(t *testing.T) {
	initial := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
	for _, c := range []struct {
		name    string
		err     error
		options metav1.ListOptions
	}{
		{"version expired", apierrors.NewResourceExpired("too old"), metav1.ListOptions{}},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{}, "", nil), metav1.ListOptions{}},
		{"initial events not served", apierrors.NewInvalid(schema.GroupKind{}, "", nil), initial},
		{"initial events, error of the server", apierrors.NewInternalError(errAway), initial},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &outage{err: c.err, until: time.Now().Add(time.Hour)}
				if _, err := retry(t.Context(), &errorLimiter{}, c.options, f.try); !errors.Is(err, c.err) || len(f.tries) != 1 {
					t.Errorf("%v after %d tries", err, len(f.tries))
				}
			})
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		f := &outage{err: errAway, until: began.Add(time.Hour)}
		if _, err := retry(ctx, &errorLimiter{}, metav1.ListOptions{}, f.try); !errors.Is(err, errAway) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
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
		return answer(http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
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
		f := NewFactory(must(NewClient(&rest.Config{Host: "http://api", QPS: -1, Transport: awayUntil{until}}, sample)), 0)
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
