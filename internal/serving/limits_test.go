package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/serving/pages"
)

// dial opens a connection, over HTTP/1.1.
func (r *running) dial() *tls.Conn {
	r.t.Helper()
	conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// pipes is a listener in memory, so that tests can have the time that they want.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// dial returns a connection to the server.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inVirtualTime runs a test with a server in memory, which everybody may ask for everything.
func inVirtualTime(t *testing.T, handlers map[string]http.Handler, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		c := basic()
		c.Authorization.AlwaysAllow = []string{"*"}
		c.Limits.Reload = 24 * time.Hour
		s, err := New(klog.NewContext(t.Context(), klog.Logger{}), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		s.listener = p
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, handlers) }()
		test(t, p)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// say sends text over TLS, and returns all that the server says until it closes the connection, and how long that took.
func (p *pipes) say(t *testing.T, text string) (reply string, took time.Duration) {
	t.Helper()
	conn := tls.Client(p.dial(), &tls.Config{InsecureSkipVerify: true})
	defer conn.Close()
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	all, _ := io.ReadAll(conn) // that the other side is gone is how it ends
	return string(all), time.Since(began)
}

func TestSlowClients(t *testing.T) {
	handlers := paths()
	handlers["/body"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, err)
	})
	for _, test := range []struct {
		name, sent string
		answer     string // part of it
		after      time.Duration
	}{
		{"half a header", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-", "", 10 * time.Second},
		{"no further request", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", 90 * time.Second},
		{"no body, though it is wanted", "PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1", "timeout", 10 * time.Second},
		{"no body, and nobody wants it", "PUT /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1", "HTTP/1.1 200 OK\r\n",
			10 * time.Second},
		{"a body without an end", "PUT /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", "timeout",
			10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inVirtualTime(t, handlers, func(t *testing.T, p *pipes) {
				reply, took := p.say(t, test.sent)
				if !strings.Contains(reply, test.answer) {
					t.Errorf("got %q", reply)
				}
				if took < test.after || took > test.after+time.Second {
					t.Errorf("the connection is closed after %v, want %v", took, test.after)
				}
			})
		})
	}
	t.Run("no handshake", func(t *testing.T) {
		inVirtualTime(t, handlers, func(t *testing.T, p *pipes) {
			began, conn := time.Now(), p.dial()
			defer conn.Close()
			_, _ = conn.Write([]byte{22})
			_, _ = io.ReadAll(conn)
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("closed after %v", took)
			}
		})
	})
	t.Run("does not read", func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		handlers["/big"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					ended <- time.Since(began)
					return
				}
			}
		})
		inVirtualTime(t, handlers, func(t *testing.T, p *pipes) {
			conn := tls.Client(p.dial(), &tls.Config{InsecureSkipVerify: true})
			if _, err := io.WriteString(conn, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(41 * time.Second)
			select {
			case took := <-ended:
				if took < 30*time.Second || took > 40*time.Second { // TLS tries to say goodbye for 5 s
					t.Errorf("the answer was given up after %v", took)
				}
			default:
				t.Error("the request goes on")
			}
			_ = conn.NetConn().Close()
		})
	})
}

// TestLongProfiles: MH-12. What is recorded for longer than an answer may take is answered all the same. (The profiler does
// not work in virtual time.)
func TestLongProfiles(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	c.Limits.WriteTimeout = 4 * time.Second
	r := run(t, c, pages.Profiles())
	client := r.client()
	var both sync.WaitGroup
	for _, what := range []string{"profile", "trace"} {
		both.Go(func() {
			g := r.do(client, "GET", "/debug/pprof/"+what+"?seconds=5", nil, "")
			if g.StatusCode != 200 || g.Header.Get("Content-Type") != "application/octet-stream" || len(g.body) == 0 {
				t.Errorf("%s: %s %v %.300q", what, g.Status, g.Header, g.body)
			}
		})
	}
	both.Wait()
}

// TestWhatIsTooLarge: MH-1 with limits.
func TestWhatIsTooLarge(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	c.Limits.HeaderBytes, c.Limits.BodyBytes = 8<<10, 1<<10
	handlers := paths()
	handlers["/debug/flags/v"] = pages.Verbosity(func(string) (string, error) { return "set", nil })
	r := run(t, c, handlers)
	plain := r.client()
	plain.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	plain.Transport.(*http.Transport).Protocols = &http.Protocols{}
	plain.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	for _, client := range []*http.Client{plain, r.client()} {
		for _, test := range []struct {
			name, path string
			header     http.Header
			body       string
			code       int
		}{
			{"a header", "/healthz", http.Header{"X": {strings.Repeat("x", 20<<10)}}, "", 431},
			{"many headers", "/healthz", http.Header{"X": strings.Split(strings.Repeat("xxxxxxxx", 2<<10), "x")}, "", 431},
			{"a path", "/" + strings.Repeat("x", 20<<10), nil, "", 431},
			{"a body", "/debug/flags/v", nil, strings.Repeat("1", 2<<10), 413},
			{"a body that is not read", "/healthz", nil, strings.Repeat("1", 2<<10), 200},
			{"all that is allowed", "/debug/flags/v", http.Header{"X": {strings.Repeat("x", 4<<10)}}, strings.Repeat("1", 1<<10), 200},
		} {
			if client != plain && test.code == 431 {
				continue // clients of HTTP/2 know the limit, and don't even ask
			}
			if g := r.do(client, "PUT", test.path, test.header.Clone(), test.body); g.StatusCode != test.code {
				t.Errorf("%s: %s %s", test.name, g.Proto, g.Status)
			}
		}
	}
}

// gate is a handler that waits until it is opened.
type gate struct {
	inside sync.WaitGroup // requests that have come
	open   chan struct{}
}

func newGate(requests int) *gate {
	g := &gate{open: make(chan struct{})}
	g.inside.Add(requests)
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	g.inside.Done()
	<-g.open
	_, _ = io.WriteString(w, "waited")
}

func TestTooManyRequests(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	c.Limits.Anonymous = 3
	g := newGate(3)
	handlers := paths()
	handlers["/wait"] = g
	r := run(t, c, handlers)
	client := r.client()
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if g := r.do(client, "GET", "/wait", nil, ""); g.StatusCode != 200 || g.body != "waited" {
				t.Errorf("%s %s", g.Status, g.body)
			}
		})
	}
	g.inside.Wait()
	over := r.do(client, "GET", "/metrics", nil, "")
	if over.StatusCode != 429 || over.Header.Get("Retry-After") != "1" || !strings.Contains(over.body, `"reason": "TooManyRequests"`) {
		t.Errorf("one too many: %s %v %s", over.Status, over.Header, over.body)
	}
	if g := r.do(client, "GET", "/healthz", nil, ""); g.StatusCode != 200 {
		t.Errorf("a probe: %s", g.Status)
	}
	if g := r.do(client, "GET", "/healthz", bearer("x"), ""); g.StatusCode != 200 {
		t.Errorf("a probe with a token: %s", g.Status)
	}
	close(g.open)
	waiting.Wait()
	if g := r.do(client, "GET", "/metrics", nil, ""); g.StatusCode != 200 {
		t.Errorf("later: %s", g.Status)
	}
}

func TestTooManyConnections(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	c.Limits.Connections = 3
	c.Limits.HeaderTimeout = time.Hour
	g := newGate(1)
	handlers := paths()
	handlers["/wait"] = g
	r := run(t, c, handlers)
	busy := r.dial() // has a request, so it stays
	if _, err := io.WriteString(busy, "GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	g.inside.Wait()
	slow := r.dial() // is sending a header, and goes first
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	idle := r.dial()
	third := r.dial()
	if reply, err := io.ReadAll(slow); err == nil && len(reply) > 0 {
		t.Errorf("the slow one got %q", reply)
	}
	for range 20 {
		if g := r.get("/healthz", nil); g.StatusCode != 200 {
			t.Fatal(g.Status)
		}
	}
	for _, conn := range []net.Conn{idle, third} {
		if _, err := io.ReadAll(conn); errors.Is(err, context.DeadlineExceeded) {
			t.Error("an idle connection stays")
		}
	}
	close(g.open)
	if reply, err := io.ReadAll(busy); err != nil || !strings.HasSuffix(string(reply), "waited") {
		t.Errorf("the one with a request got %q, %v", reply, err)
	}
	r.connections.mu.Lock()
	known := len(r.connections.known)
	r.connections.mu.Unlock()
	if known > 3 {
		t.Errorf("%d connections", known)
	}
}

func TestPanics(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	handlers := paths()
	handlers["/panic"] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh no") })
	handlers["/half"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("oh no")
	})
	handlers["/abort"] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r := run(t, c, handlers)
	if g := r.get("/panic", nil); g.StatusCode != 500 || g.body != "Internal Server Error\n" {
		t.Errorf("%s %s", g.Status, g.body)
	}
	for _, path := range []string{"/half", "/abort"} {
		resp, err := r.client().Get("https://" + r.Addr().String() + path)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: half an answer looks whole", path)
		}
	}
	if n := strings.Count(r.log.String(), `"Panic while serving"`); n != 2 {
		t.Errorf("logged %d times", n)
	}
	if g := r.get("/healthz", nil); g.StatusCode != 200 {
		t.Error(g.Status)
	}
}

func TestEnd(t *testing.T) { // CLI-63
	leaks := goleak.IgnoreCurrent()
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	g := newGate(1)
	handlers := paths()
	handlers["/wait"] = g
	r := run(t, c, handlers)
	answered := make(chan got, 1)
	client := r.client()
	go func() { answered <- r.do(client, "GET", "/wait", nil, "") }()
	g.inside.Wait()
	ended := make(chan error, 1)
	go func() { ended <- r.stop() }()
	<-r.Closed()
	if conn, err := net.Dial("tcp", r.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
	close(g.open)
	if g := <-answered; g.StatusCode != 200 || g.body != "waited" {
		t.Errorf("the request under way: %s %s", g.Status, g.body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	client.CloseIdleConnections()
	goleak.VerifyNone(t, leaks)
}

func TestEndDoesNotWaitForEver(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"*"}
	c.Limits.ShutdownTimeout = 20 * time.Millisecond
	inside, cut := make(chan struct{}), make(chan error, 1)
	handlers := paths()
	handlers["/wait"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
		cut <- r.Context().Err()
	})
	r := run(t, c, handlers)
	client := r.client()
	go func() {
		if resp, err := client.Get("https://" + r.Addr().String() + "/wait"); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-inside
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	select {
	case <-cut:
	default:
		t.Error("the request goes on")
	}
	client.CloseIdleConnections()
}

// TestABrokenListener: a server that dies says so.
func TestABrokenListener(t *testing.T) {
	s, err := New(t.Context(), basic())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), paths()) }()
	r := &running{Server: s, t: t}
	if g := r.get("/healthz", nil); g.StatusCode != 200 {
		t.Error(g.Status)
	}
	_ = s.listener.Close()
	if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "serve HTTPS on 127.0.0.1:") {
		t.Errorf("got %v", err)
	}
	<-s.Closed()
}
