package serving

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawHTTP2 is a connection of HTTP/2 whose client does only what the test says.
type rawHTTP2 struct {
	t      testing.TB
	conn   *tls.Conn
	framer *http2.Framer
	next   uint32 // stream
}

// dialHTTP2 connects, and says how much of each answer the client takes.
func (r *running) dialHTTP2(window uint32) *rawHTTP2 {
	r.t.Helper()
	conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	c := &rawHTTP2{t: r.t, conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// get asks for a path on a stream of its own. It reports whether the connection takes the request.
func (c *rawHTTP2) get(path string) bool {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	defer func() { c.next += 2 }()
	return c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: c.next, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}) == nil
}

// frames reads until the connection ends.
func (c *rawHTTP2) frames(each func(http2.Frame)) {
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		each(f)
	}
}

// hold sends as many requests as connections and streams allow, and takes no answer, until stop is closed.
func (r *running) hold(streams int, path string, stop <-chan struct{}) (answered chan struct{}) {
	answered = make(chan struct{})
	once := sync.OnceFunc(func() { close(answered) })
	var attack sync.WaitGroup
	r.t.Cleanup(attack.Wait)
	attack.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := r.dialHTTP2(0)
			ended := make(chan struct{})
			attack.Go(func() {
				select {
				case <-stop:
				case <-ended:
				}
				_ = c.conn.Close()
			})
			for range streams {
				if !c.get(path) {
					break
				}
			}
			headers := 0
			c.frames(func(f http2.Frame) {
				switch f.(type) {
				case *http2.HeadersFrame:
					headers++
				case *http2.GoAwayFrame: // the server takes no more
					headers = streams
				}
				if headers >= streams {
					once()
				}
			})
			close(ended)
		}
	})
	return answered
}

// verbose answers a probe as a manager with many controllers does: with more than HTTP/2 sends without a window.
func verbose() http.Handler {
	return text(strings.Repeat("[+]some-controller excluded: ok\n", 150))
}

// TestClientsThatDoNotReadKeepNobodyWaiting: one stranger with one connection of HTTP/2, who takes no answer, takes neither the
// places of probes nor those of scrapers.
func TestClientsThatDoNotReadKeepNobodyWaiting(t *testing.T) {
	for _, attack := range []struct {
		name    string
		streams int
		path    string
	}{
		{"probes that are long", 20, "/livez?verbose&exclude=x"},
		{"as many probes as a connection can carry", 200, "/readyz?verbose&exclude=x"},
		{"paths that are long", 100, "/" + strings.Repeat("a", 9000)},
		{"what nobody may have", 200, "/metrics"},
	} {
		t.Run(attack.name, func(t *testing.T) {
			api := newAPIServer(t)
			c := basic()
			api.ask(&c)
			c.Probes = []string{"/healthz", "/livez", "/readyz"}
			handlers := paths()
			handlers["/livez"], handlers["/readyz"] = verbose(), verbose()
			handlers["/metrics"] = text(strings.Repeat("a 1\n", 100<<10))
			r := run(t, c, handlers)
			stop := make(chan struct{})
			defer close(stop)
			<-r.hold(attack.streams, attack.path, stop)
			for range 20 {
				for _, path := range []string{"/livez", "/readyz"} {
					for _, header := range []http.Header{nil, bearer("scraper")} {
						if g := r.get(path, header.Clone()); g.StatusCode != 200 {
							t.Fatalf("%s with %v: %s", path, header, g.Status)
						}
					}
				}
				if g := r.get("/metrics", bearer("scraper")); g.StatusCode != 200 || len(g.body) != 400<<10 {
					t.Fatalf("a scraper: %s, %d bytes", g.Status, len(g.body))
				}
			}
		})
	}
}

// TestShortAnswersEndSoon: who does not take a short answer is not waited for.
func TestShortAnswersEndSoon(t *testing.T) {
	c := basic()
	c.Limits.QuickTimeout = 50 * time.Millisecond
	c.Probes = []string{"/livez"}
	handlers := paths()
	handlers["/livez"] = verbose()
	r := run(t, c, handlers)
	for _, path := range []string{"/livez", "/metrics"} {
		conn := r.dialHTTP2(0)
		if !conn.get(path) {
			t.Fatal("no request")
		}
		var reset, farewell bool
		began := time.Now()
		conn.frames(func(f http2.Frame) {
			switch f.(type) {
			case *http2.RSTStreamFrame:
				reset = true
			case *http2.GoAwayFrame:
				farewell = true
			}
		})
		if took := time.Since(began); !reset || !farewell || took > 10*time.Second { // WriteTimeout is 30 s
			t.Errorf("%s: reset %v, farewell %v, the connection ended after %v", path, reset, farewell, took)
		}
	}
}

// TestStrangersHaveOneRequestPerConnection is about HTTP/2; the connections of clients that are known stay.
func TestStrangersHaveOneRequestPerConnection(t *testing.T) {
	r, _, clients, _ := guarded(t)
	for _, test := range []struct {
		name   string
		certs  []tls.Certificate
		header http.Header
		path   string
		kept   bool
	}{
		{"nobody", nil, nil, "/healthz", false},
		{"nobody, forbidden", nil, nil, "/metrics", false},
		{"a bad token", nil, bearer("forged"), "/metrics", false},
		{"a token", nil, bearer("scraper"), "/metrics", true},
		{"a token, forbidden", nil, bearer("guest"), "/metrics", true},
		{"a certificate", []tls.Certificate{clients.issue(t, "alice", nil).tls(t)}, nil, "/healthz", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := r.client(test.certs...)
			first := r.do(client, "GET", test.path, test.header.Clone(), "")
			if first.ProtoMajor != 2 {
				t.Fatal(first.Proto)
			}
			kept := func() bool {
				reused := false
				trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
				req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet,
					"https://"+r.Addr().String()+test.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header = test.header.Clone()
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return reused
			}
			if test.kept {
				if !kept() {
					t.Error("the connection has ended")
				}
				return
			}
			eventually(t, func() string { // the farewell comes after the answer
				if kept() {
					return "the connection stays"
				}
				return ""
			})
		})
	}
}

// TestWhatIsRepeatedIsCut: what a client sends makes an answer no longer than that of anybody.
func TestWhatIsRepeatedIsCut(t *testing.T) {
	r, api, _, _ := guarded(t)
	long := "/" + strings.Repeat("a", 9000)
	cutPath := long[:252] + " ..."
	if g := r.get(long, nil); g.StatusCode != 403 || g.body != forbidden("system:anonymous", "get", cutPath, "") {
		t.Errorf("%s %s", g.Status, g.body)
	}
	if g := r.get("/"+strings.Repeat("a", 255), nil); g.body != forbidden("system:anonymous", "get", "/"+strings.Repeat("a", 255), "") {
		t.Errorf("MH-3: %s", g.body)
	}
	if n := len(api.accesses[0].NonResourceAttributes.Path); n != len(long) {
		t.Errorf("the API server is asked about a path of %d bytes", n)
	}
	api.set(func() { api.failures = []int{403} })
	if g := r.get(long+"b", nil); g.StatusCode != 500 || g.body != fmt.Sprintf("Internal Server Error: %q\n", cutPath) {
		t.Errorf("%s %s", g.Status, g.body)
	}
}

// TestOneAddressLeavesPlacesForOthers is about tokens, with which the API server is slow, and about handlers.
func TestOneAddressLeavesPlacesForOthers(t *testing.T) {
	for _, test := range []struct {
		name       string
		limit, per int
		taken      []string // remote addresses, in turn
		refused    string   // the next one
		next       string   // which still has a place
	}{
		{name: "all", limit: 2, taken: []string{"10.0.0.1:1", "10.0.0.2:1"}, refused: "10.0.0.3:1"},
		{name: "one address", limit: 9, per: 2, taken: []string{"10.0.0.1:1", "10.0.0.1:2"}, refused: "10.0.0.1:3", next: "10.0.0.2:1"},
		{name: "one network of IPv6", limit: 9, per: 2, taken: []string{"[fd00::1]:1", "[fd00::ffff:2]:2"}, refused: "[fd00::3]:3",
			next: "[fd00:0:0:1::1]:1"},
		{name: "IPv4 in IPv6", limit: 9, per: 2, taken: []string{"10.0.0.1:1", "[::ffff:10.0.0.1]:1"}, refused: "10.0.0.1:3",
			next: "[::ffff:10.0.0.2]:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlaces(test.limit, test.per)
			var back []func()
			for _, remote := range test.taken {
				release, ok := p.take(remote)
				if !ok {
					t.Fatalf("no place for %s", remote)
				}
				back = append(back, release)
			}
			if _, ok := p.take(test.refused); ok {
				t.Errorf("a place for %s", test.refused)
			}
			if test.next != "" {
				release, ok := p.take(test.next)
				if !ok {
					t.Errorf("no place for %s", test.next)
				} else {
					release()
				}
			}
			back[0]()
			if _, ok := p.take(test.refused); !ok {
				t.Errorf("no place for %s, though one was given back", test.refused)
			}
		})
	}
}
