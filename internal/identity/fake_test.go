package identity

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	// klog starts its flusher when it is first configured, once for the process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// seen is one request as the server saw it.
type seen struct {
	Method, Path, Query string
	Header              http.Header
	Body                []byte
}

// api is an HTTP server in memory, reached through pipes, so that it works with virtual time. It writes down the
// requests and answers them with answer.
type fakeAPI struct {
	config *rest.Config
	server *http.Server

	mu       sync.Mutex
	requests []seen
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve starts an api. Call it inside of a bubble, and let its end be awaited there.
func serve(t *testing.T, answer http.HandlerFunc) *fakeAPI {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	a := &fakeAPI{config: &rest.Config{Host: "http://api", Dial: l.dial}}
	a.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.requests = append(a.requests, seen{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), body})
		a.mu.Unlock()
		answer(w, r)
	})}
	go func() { _ = a.server.Serve(l) }()
	t.Cleanup(func() { _ = a.server.Close() })
	return a
}

// log returns the requests so far.
func (a *fakeAPI) log() []seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]seen(nil), a.requests...)
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	reply(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason),
	})
}

func clientset(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	out, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func controllerClient(t *testing.T, b *Builder, account string) *kubernetes.Clientset {
	t.Helper()
	c, err := b.Controller(account)
	if err != nil {
		t.Fatal(err)
	}
	return clientset(t, c)
}
