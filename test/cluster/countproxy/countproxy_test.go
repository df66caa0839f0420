package countproxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestParseRequest(t *testing.T) {
	for _, c := range []struct {
		method, url string
		want        Request
	}{
		{"GET", "/api/v1/pods", Request{Verb: "list", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=true", Request{Verb: "watch", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=1&timeoutSeconds=5", Request{Verb: "watch", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=false", Request{Verb: "list", Resource: "pods"}},
		{"POST", "/api/v1/namespaces/a/pods", Request{Verb: "create", Resource: "pods"}},
		{"GET", "/api/v1/namespaces/a/pods/p", Request{Verb: "get", Resource: "pods"}},
		{"PATCH", "/api/v1/namespaces/a/pods/p/status", Request{Verb: "patch", Resource: "pods", Subresource: "status"}},
		{"DELETE", "/api/v1/namespaces/a/pods/p", Request{Verb: "delete", Resource: "pods"}},
		{"DELETE", "/api/v1/namespaces/a/pods", Request{Verb: "deletecollection", Resource: "pods"}},
		{"GET", "/api/v1/namespaces", Request{Verb: "list", Resource: "namespaces"}},
		{"GET", "/api/v1/namespaces/a", Request{Verb: "get", Resource: "namespaces"}},
		{"PUT", "/api/v1/namespaces/a/finalize", Request{Verb: "update", Resource: "namespaces", Subresource: "finalize"}},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/d", Request{Verb: "update", Group: "apps", Resource: "deployments"}},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/d/status",
			Request{Verb: "update", Group: "apps", Resource: "deployments", Subresource: "status"}},
		{"GET", "/apis/apps/v1", Request{Verb: "get"}},
		{"GET", "/api/v1", Request{Verb: "get"}},
		{"GET", "/readyz", Request{Verb: "get"}},
		{"GET", "/", Request{Verb: "get"}},
	} {
		if got := parseRequest(httptest.NewRequest(c.method, c.url, nil)); got != c.want {
			t.Errorf("%s %s: got %+v, want %+v", c.method, c.url, got, c.want)
		}
	}
}

func TestWhichRequestsAreWrites(t *testing.T) {
	for path, want := range map[string]int{
		"/apis/apps/v1/namespaces/a/replicasets":             1,
		"/api/v1/namespaces/a/serviceaccounts":               1,
		"/api/v1/namespaces/a/serviceaccounts/x/token":       0,
		"/api/v1/namespaces/a/events":                        0,
		"/apis/events.k8s.io/v1/namespaces/a/events":         0,
		"/apis/coordination.k8s.io/v1/namespaces/a/leases":   0,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews": 0,
		"/apis/authentication.k8s.io/v1/tokenreviews":        0,
		"/openapi/v3": 0,
		"/apis/apps/v1/namespaces/a/replicasets/x/unknownpart": 1,
	} {
		proxy := startProxy(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		send(t, "POST", proxy.URL()+path, "")
		if got := proxy.Writes().Total; got != want {
			t.Errorf("POST %s: counted as %d writes, want %d", path, got, want)
		}
		if got := proxy.Requests().Total; got != 1 {
			t.Errorf("POST %s: counted as %d requests, want 1", path, got)
		}
	}
}

func TestCountsByVerbResourceAndCode(t *testing.T) {
	proxy := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("refuse") != "" {
			w.WriteHeader(http.StatusConflict)
		}
	})
	url := proxy.URL() + "/apis/apps/v1/namespaces/a/deployments/d"
	var sent sync.WaitGroup
	for range 20 {
		sent.Go(func() { send(t, "PUT", url, "{}") })
		sent.Go(func() { send(t, "PUT", url+"/status", "{}") })
		sent.Go(func() { send(t, "PUT", url+"/status?refuse=1", "{}") })
		sent.Go(func() { send(t, "GET", url, "") })
	}
	sent.Wait()
	writes := proxy.Writes()
	if writes.Total != 60 || writes.Refused != 20 || len(writes.Rows) != 3 {
		t.Errorf("got %d writes, %d refused, %d rows; want 60, 20, 3\n%s", writes.Total, writes.Refused, len(writes.Rows), writes)
	}
	if got := writes.Count("update", "deployments/status"); got != 40 {
		t.Errorf("counted %d updates of deployments/status, want 40", got)
	}
	proxy.Reset()
	if got := proxy.Requests().Total; got != 0 {
		t.Errorf("after Reset %d requests are left", got)
	}
}

func TestFindsWritesWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		name          string
		method        string
		sent          string // version in the request
		before, after string // versions in the responses to a GET and to the write
		want          int
	}{
		{"an update that answers with a new version", "PUT", "10", "10", "11", 0},
		{"an update that answers with the version sent", "PUT", "10", "10", "10", 1},
		{"an update of an object never seen before", "PUT", "10", "3", "10", 1},
		{"a patch that answers with a new version", "PATCH", "", "10", "11", 0},
		{"a patch that answers with the version known", "PATCH", "", "10", "10", 1},
		{"a patch that answers with an older version than that of another object", "PATCH", "", "10", "8", 1},
		{"a create", "POST", "", "10", "11", 0},
	} {
		for _, contentType := range []string{k8sruntime.ContentTypeJSON, k8sruntime.ContentTypeProtobuf} {
			t.Run(c.name+" in "+contentType, func(t *testing.T) {
				proxy := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", contentType)
					version := c.after
					if r.Method == "GET" {
						version = c.before
					}
					_, _ = io.WriteString(w, encode(t, contentType, version))
				})
				url := proxy.URL() + "/apis/apps/v1/namespaces/a/deployments"
				if c.method != "POST" {
					url += "/d"
				}
				send(t, "GET", proxy.URL()+"/apis/apps/v1/namespaces/a/deployments/other", "")
				body := encode(t, contentType, c.sent)
				got := sendAs(t, c.method, url, contentType, body)
				if want := encode(t, contentType, c.after); got != want {
					t.Errorf("the client got %q, want %q", got, want)
				}
				if got := proxy.Writes().NoOps; got != c.want {
					t.Errorf("%d writes without effect, want %d", got, c.want)
				}
			})
		}
	}
}

func TestPassesBodiesOnUntouched(t *testing.T) {
	proxy := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		_, _ = io.Copy(w, r.Body)
	})
	garbage := "k8s\x00\xff\x00\x01 not a message"
	for _, method := range []string{"POST", "PUT", "PATCH"} {
		got := sendAs(t, method, proxy.URL()+"/api/v1/namespaces/a/pods/p", "application/vnd.kubernetes.protobuf", garbage)
		if got != garbage {
			t.Errorf("%s: got %q back, want %q", method, got, garbage)
		}
	}
}

func TestFlushesWatchEventsAtOnceAndClosesWithoutLeak(t *testing.T) {
	before := runtime.NumGoroutine()
	next := make(chan string)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case event := <-next:
				_, _ = io.WriteString(w, event+"\n")
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	proxy, err := StartFor(&rest.Config{Host: backend.URL})
	if err != nil {
		t.Fatal(err)
	}
	go func() { next <- "one" }()
	resp, err := http.Get(proxy.URL() + "/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"one", "two"} {
		if want == "two" {
			next <- "two"
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got event %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	if got := proxy.Requests().Count("watch", "pods"); got != 1 {
		t.Errorf("counted %d watches, want 1", got)
	}
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
	if lines.Scan() {
		t.Errorf("got event %q from a closed proxy", lines.Text())
	}
	backend.Close()
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}

func TestUsesTheClientsTokenOrElseItsOwn(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	t.Cleanup(backend.Close)
	proxy, err := StartFor(&rest.Config{Host: backend.URL, BearerToken: "own"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeProxy(t, proxy) })
	if got := send(t, "GET", proxy.URL()+"/api/v1/pods", ""); got != "Bearer own" {
		t.Errorf("without a token: %q", got)
	}
	req := newRequest(t, "GET", proxy.URL()+"/api/v1/pods", "")
	req.Header.Set("Authorization", "Bearer client's")
	if got := do(t, req); got != "Bearer client's" {
		t.Errorf("with a token: %q", got)
	}
}

func TestCountsRequestsThatTheServerDoesNotAnswer(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	proxy, err := StartFor(&rest.Config{Host: backend.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeProxy(t, proxy) })
	backend.Close()
	send(t, "POST", proxy.URL()+"/api/v1/namespaces/a/pods", "{}")
	writes := proxy.Writes()
	if writes.Refused != 1 || writes.Rows[0].Code != http.StatusBadGateway {
		t.Errorf("got\n%s", writes)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	proxy := startProxy(t, func(http.ResponseWriter, *http.Request) {})
	config := configOf(t, proxy)
	if config.Host != proxy.URL() {
		t.Errorf("the kubeconfig's server is %s, want %s", config.Host, proxy.URL())
	}
}

func TestServesHTTP2OverTLS(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(backend.Close)
	var protocol string
	proxy, err := start(&rest.Config{Host: backend.URL}, Options{TLS: true, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protocol = r.Proto
			next.ServeHTTP(w, r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeProxy(t, proxy) })
	config := configOf(t, proxy)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Post(config.Host+"/api/v1/namespaces/a/pods", "text/plain", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	client.CloseIdleConnections()
	if got := proxy.Writes().Total; got != 1 || protocol != "HTTP/2.0" {
		t.Errorf("%d writes counted, over %s", got, protocol)
	}
}

// configOf reads the proxy's kubeconfig.
func configOf(t *testing.T, proxy *Proxy) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(file); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestStartRefusesABadServerAddress(t *testing.T) {
	if _, err := StartFor(&rest.Config{Host: "no-url"}); err == nil {
		t.Error("no error")
	}
}

// startProxy starts a proxy in front of a server that answers with handle.
func startProxy(t *testing.T, handle http.HandlerFunc) *Proxy {
	t.Helper()
	backend := httptest.NewTLSServer(handle)
	t.Cleanup(backend.Close)
	proxy, err := StartFor(&rest.Config{Host: backend.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeProxy(t, proxy) })
	return proxy
}

func closeProxy(t *testing.T, proxy *Proxy) {
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
}

func send(t *testing.T, method, url, body string) string {
	t.Helper()
	return do(t, newRequest(t, method, url, body))
}

func sendAs(t *testing.T, method, url, contentType, body string) string {
	t.Helper()
	req := newRequest(t, method, url, body)
	req.Header.Set("Content-Type", contentType)
	return do(t, req)
}

func newRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// do may run in other goroutines than the test's.
func do(t *testing.T, req *http.Request) string {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// encode renders a Deployment of the given version.
func encode(t *testing.T, contentType, version string) string {
	t.Helper()
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "a", ResourceVersion: version},
	}
	var encoder k8sruntime.Encoder = scheme.Codecs.LegacyCodec(appsv1.SchemeGroupVersion)
	if contentType == k8sruntime.ContentTypeProtobuf {
		encoder = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	}
	data, err := k8sruntime.Encode(encoder, deployment)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// An update that takes the last finalizer off is answered with the version of before, and has an effect all the same.
func TestRemovalIsAnEffect(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","resourceVersion":"10","deletionTimestamp":"2026-01-01T00:00:00Z"%s}}`
	for finalizers, want := range map[string]int{"": 0, `,"finalizers":["a"]`: 1} {
		body := fmt.Sprintf(object, finalizers)
		proxy := startProxy(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", k8sruntime.ContentTypeJSON)
			_, _ = io.WriteString(w, body)
		})
		sendAs(t, "PUT", proxy.URL()+"/api/v1/namespaces/a/configmaps/m", k8sruntime.ContentTypeJSON, body)
		if got := proxy.Writes().NoOps; got != want {
			t.Errorf("%q: %d writes without effect, want %d", finalizers, got, want)
		}
	}
}
