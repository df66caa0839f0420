package serving

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

func TestCertificatesByName(t *testing.T) { // CLI-34
	ca := newIssuer(t, "ca")
	c := basic()
	c.TLS.CertFile, c.TLS.KeyFile = pairFiles(t, ca.issue(t, "default", nil))
	for _, n := range []struct {
		cert  signed
		names []string
	}{
		{ca.issue(t, "first", forNames("a.example.com", "*.example.org")), nil},
		{ca.issue(t, "second", forNames("a.example.com", "b.example.com")), nil},
		{ca.issue(t, "given", forNames("x.example.com")), []string{"B.example.com", "*.given.example.com"}},
		{ca.issue(t, "common.example.com", nil), nil},
		{ca.issue(t, "address", nil), []string{"127.0.0.1"}},
	} {
		cert, key := pairFiles(t, n.cert)
		c.TLS.Named = append(c.TLS.Named, certificates.Named{CertFile: cert, KeyFile: key, Names: n.names})
	}
	r := run(t, c, paths())
	for asked, want := range map[string]string{
		"a.example.com": "first", "A.Example.Com": "first", "y.example.org": "first", "x.y.example.org": "default",
		"example.org":   "default",
		"b.example.com": "given", "x.example.com": "default", "z.given.example.com": "given", "common.example.com": "common.example.com",
		"nobody": "default", "": "address",
	} {
		if got := r.presented(asked); got != want {
			t.Errorf("who asks for %q gets %q, want %q", asked, got, want)
		}
	}
}

func TestTLSSettings(t *testing.T) { // CLI-34
	rsa, ecdsa := tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
	for _, test := range []struct {
		name   string
		server TLS
		client *tls.Config
		err    string // of the handshake
	}{
		{"the default", TLS{}, &tls.Config{}, ""},
		{"TLS 1.2 by default", TLS{}, &tls.Config{MaxVersion: tls.VersionTLS12}, ""},
		{"no TLS 1.1 by default", TLS{}, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			"protocol version not supported"},
		{"TLS 1.1 if asked for", TLS{MinVersion: tls.VersionTLS11}, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			""},
		{"TLS 1.3 only", TLS{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12}, "protocol version not supported"},
		{"a cipher suite", TLS{CipherSuites: []uint16{rsa, ecdsa}},
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{ecdsa}}, ""},
		{"no other cipher suite", TLS{CipherSuites: []uint16{rsa, ecdsa}},
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
			"handshake failure"},
		{"a curve", TLS{Curves: []tls.CurveID{tls.CurveP256}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP256}}, ""},
		{"no other curve", TLS{Curves: []tls.CurveID{tls.CurveP256}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}},
			"handshake failure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := basic()
			c.TLS = test.server
			r := run(t, c, paths())
			test.client.InsecureSkipVerify = true
			conn, err := tls.Dial("tcp", r.Addr().String(), test.client)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

func TestProtocols(t *testing.T) { // MH-1
	for _, disabled := range []bool{false, true} {
		c := basic()
		c.TLS.DisableHTTP2 = disabled
		r := run(t, c, paths())
		want := map[bool]string{false: "HTTP/2.0", true: "HTTP/1.1"}[disabled]
		if g := r.get("/healthz", nil); g.Proto != want || g.StatusCode != 200 {
			t.Errorf("without HTTP/2 %v: %s %s", disabled, g.Proto, g.Status)
		}
		conn, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))
		reply := make([]byte, 1000)
		n, _ := conn.Read(reply)
		_ = conn.Close()
		if got := string(reply[:n]); !strings.HasPrefix(got, "HTTP/1.0 400 Bad Request\r\n") {
			t.Errorf("plain HTTP: %q", got)
		}
	}
}

// TestOddRequests are those that clients of Go do not make.
func TestOddRequests(t *testing.T) {
	r := run(t, basic(), paths())
	for sent, want := range map[string]string{
		"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                   "HTTP/1.1 403 ",
		"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nConnection: close\r\n\r\n":               "HTTP/1.1 403 ",
		"GET https://y/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":       "HTTP/1.1 200 ",
		"GET /x/../healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":           "HTTP/1.1 403 ",
		"GET /healthz HTTP/1.0\r\n\r\n":                                                "HTTP/1.0 200 ",
		"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n":                           "HTTP/1.1 400 ",
		"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                         "HTTP/1.1 400 ",
		"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n":                                     "HTTP/1.1 505 ",
		"\x00\x01\x02\r\n\r\n":                                                         "HTTP/1.1 400 ",
		"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n":                     "HTTP/1.1 400 ",
		"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": "HTTP/1.1 400 ",
	} {
		conn := r.dial()
		_, _ = io.WriteString(conn, sent)
		reply, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(reply), want) {
			t.Errorf("%q: %.100q", sent, reply)
		}
	}
}

// TestStreams reads from the server's settings how many streams a connection may have (CLI-34).
func TestStreams(t *testing.T) {
	for given, want := range map[int]uint32{7: 7, 0: 250} {
		c := basic()
		c.TLS.HTTP2MaxStreams = given
		r := run(t, c, paths())
		conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil || head[3] != 4 {
			t.Fatalf("no settings: %v, %v", head, err)
		}
		settings := make([]byte, int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, settings); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		var got uint32
		for ; len(settings) >= 6; settings = settings[6:] {
			if settings[1] == 3 { // SETTINGS_MAX_CONCURRENT_STREAMS
				got = binary.BigEndian.Uint32(settings[2:6])
			}
		}
		if got != want {
			t.Errorf("--http2-max-streams-per-connection=%d: %d", given, got)
		}
	}
}

func TestCipherSuitesWithoutHTTP2(t *testing.T) { // CLI-34
	c := basic()
	c.TLS.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
	if _, err := New(t.Context(), c); err == nil ||
		!strings.HasPrefix(err.Error(), "HTTP/2 over TLS 1.2 needs cipher suite TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or ") {
		t.Errorf("got %v", err)
	}
	for _, edit := range []func(*TLS){func(t *TLS) { t.DisableHTTP2 = true }, func(t *TLS) { t.MinVersion = tls.VersionTLS13 }} {
		c := c
		edit(&c.TLS)
		if g := run(t, c, paths()).get("/healthz", nil); g.StatusCode != 200 {
			t.Error(g.Status)
		}
	}
}

func TestListening(t *testing.T) { // CLI-30, CLI-31, CLI-34
	taken := run(t, basic(), paths())
	c := basic()
	c.Port = taken.Addr().(*net.TCPAddr).Port
	want := "listen tcp 127.0.0.1:" + strconv.Itoa(c.Port) + ": bind: address already in use"
	if _, err := New(t.Context(), c); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	c.SharePort = true
	if _, err := New(t.Context(), c); err == nil || err.Error() != want {
		t.Errorf("a port is shared only by those who agree: %v", err)
	}
	c = basic()
	c.Address = net.IPv4(192, 0, 2, 1)
	if _, err := New(t.Context(), c); err == nil || !strings.HasSuffix(err.Error(), "bind: cannot assign requested address") {
		t.Errorf("an address of others: %v", err)
	}

	c = basic()
	c.SharePort, c.ShareAddress = true, true
	one := run(t, c, paths())
	c.Port = one.Addr().(*net.TCPAddr).Port
	two := run(t, c, paths())
	if two.Addr().String() != one.Addr().String() {
		t.Errorf("%v and %v", one.Addr(), two.Addr())
	}
	if g := two.get("/healthz", nil); g.StatusCode != 200 {
		t.Error(g.Status)
	}

	c = basic()
	c.Address = net.IPv6loopback
	s, err := New(t.Context(), c)
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	defer s.Close()
	if host, _, _ := net.SplitHostPort(s.Addr().String()); host != "::1" {
		t.Error(s.Addr())
	}
}
