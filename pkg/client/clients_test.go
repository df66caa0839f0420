package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// All clients of an identity use one transport (with its token and its user agent), and take from one bucket.
func TestClientsShareTransportAndLimiter(t *testing.T) {
	var mu sync.Mutex
	agents := map[string]int{}
	c, discovered := startCatalog(t, false, widgets)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		agents[r.UserAgent()]++
		mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	limiter := &countingLimiter{RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
	transports := 0
	config := &rest.Config{Host: server.URL, UserAgent: "somebody", RateLimiter: limiter,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper { transports++; return rt }}
	clients, err := NewClients(config, discovered, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.add(gadgets) // after the clients were made
	typed, err1 := clients.Kubernetes()
	metadata, err2 := clients.Metadata()
	dynamic, err3 := clients.Dynamic()
	scales, err4 := clients.Scales()
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := clients.Kubernetes(); again != typed {
		t.Error("a second typed client")
	}
	ctx := t.Context()
	_, _ = typed.AppsV1().Deployments("ns").Get(ctx, "a", metav1.GetOptions{})
	_, _ = metadata.Resource(widgets.GroupVersionResource()).Namespace("ns").Get(ctx, "a", metav1.GetOptions{})
	_, _ = dynamic.Resource(widgets.GroupVersionResource()).Namespace("ns").Get(ctx, "a", metav1.GetOptions{})
	_, _ = scales.Scales("ns").Get(ctx, widgets.GroupResource(), "a", metav1.GetOptions{})
	_ = clients.Reader().Get(ctx, widgets, plan.Key{Namespace: "ns", Name: "a"}, &metav1.PartialObjectMetadata{})
	_ = clients.Client().Delete(ctx, builtIn(t, &appsv1.Deployment{}), plan.Key{Namespace: "ns", Name: "a"}, metav1.DeleteOptions{})
	if want := map[string]int{"somebody": 6}; !reflect.DeepEqual(agents, want) || transports != 1 || limiter.taken != 6 {
		t.Errorf("requests by user agent: %v, %d transports, %d tokens taken", agents, transports, limiter.taken)
	}
}

type countingLimiter struct {
	flowcontrol.RateLimiter
	taken int
}

func (l *countingLimiter) Wait(context.Context) error { l.taken++; return nil }

// A configuration with a rate and no bucket gets one bucket, not one for each group.
func TestOneBucket(t *testing.T) {
	for _, c := range []struct {
		qps  float32
		want float32 // 0: no limit
	}{{0, rest.DefaultQPS}, {20, 20}, {-1, 0}} {
		clients := newClients(t, &rest.Config{Host: "http://127.0.0.1:1", QPS: c.qps}, Options{})
		var limiters []flowcontrol.RateLimiter
		for _, m := range []Mapping{widgets, builtIn(t, &corev1.Pod{}), builtIn(t, &appsv1.Deployment{})} {
			client, err := clients.rest(m)
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, client.GetRateLimiter())
		}
		if c.want == 0 {
			if !reflect.DeepEqual(limiters, make([]flowcontrol.RateLimiter, 3)) {
				t.Errorf("QPS %v: limited", c.qps)
			}
		} else if limiters[0] != limiters[1] || limiters[1] != limiters[2] || limiters[0].QPS() != c.want {
			t.Errorf("QPS %v: limiters %v", c.qps, limiters)
		}
	}
}

func TestClientsAreMadeOnce(t *testing.T) {
	clients := newClients(t, &rest.Config{Host: "http://127.0.0.1:1", QPS: -1}, Options{})
	var wg sync.WaitGroup
	for range 8 { // the race detector watches
		wg.Go(func() {
			for _, m := range []Mapping{widgets, builtIn(t, &corev1.Pod{})} {
				if _, err := clients.rest(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(clients.restClients); got != 3 { // and that for absolute paths
		t.Errorf("%d REST clients", got)
	}
	unknown := Mapping{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "New"}, Resource: "news"}
	if got := clients.contentType(unknown); got != jsonType {
		t.Errorf("a kind that the scheme lacks travels as %s", got)
	}
}

func TestConfigurationIsWrong(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"host": {Host: "http://[::1"},
		"CA":   {Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "does-not-exist"}},
	} {
		if _, err := NewClients(config, nil, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := NewMapper(config); err == nil {
			t.Errorf("%s: no error of the mapper", name)
		}
	}
}
