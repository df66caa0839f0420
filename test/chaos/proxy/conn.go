package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections is a listener that knows its connections, to cut them or to silence them.
type connections struct {
	net.Listener

	mu     sync.Mutex
	open   map[*conn]bool
	silent chan struct{} // closed when something comes through again; nil if it does
}

// conn is a connection that can be silenced: then it is open, but nothing comes through, as with a broken network.
type conn struct {
	net.Conn
	all    *connections
	closed chan struct{}
	once   sync.Once
}

type connKey struct{}

// listen listens on a free port of the loopback interface, with a certificate that is made for it.
func listen() (*connections, *tls.Config, []byte, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	certificate, caPEM, err := selfSigned()
	if err != nil {
		_ = listener.Close()
		return nil, nil, nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	return &connections{Listener: listener, open: map[*conn]bool{}}, config, caPEM, nil
}

func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "fault proxy"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, caPEM, nil
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	inner, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	opened := &conn{Conn: inner, all: c, closed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[opened] = true
	return opened, nil
}

// context makes a request's connection known to its handler.
func (c *connections) context(ctx context.Context, inner net.Conn) context.Context {
	if wrapped, ok := inner.(*tls.Conn); ok {
		inner = wrapped.NetConn()
	}
	return context.WithValue(ctx, connKey{}, inner)
}

func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// cut closes the connection of a request.
func (c *connections) cut(r *http.Request) {
	if c := connOf(r); c != nil {
		_ = c.Close()
	}
}

// cutAll closes all connections.
func (c *connections) cutAll() {
	c.mu.Lock()
	var all []*conn
	for open := range c.open {
		all = append(all, open)
	}
	c.mu.Unlock()
	for _, open := range all {
		_ = open.Close()
	}
}

// silence lets nothing through any connection, until it is ended.
func (c *connections) silence() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := make(chan struct{})
	c.silent = silent
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.silent == silent {
			c.silent = nil
		}
		close(silent)
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		c.wait()
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.wait()
	return c.Conn.Write(p)
}

func (c *conn) wait() {
	for {
		c.all.mu.Lock()
		silent := c.all.silent
		c.all.mu.Unlock()
		if silent == nil {
			return
		}
		select {
		case <-silent:
		case <-c.closed:
			return
		}
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.all.mu.Lock()
		delete(c.all.open, c)
		c.all.mu.Unlock()
	})
	return c.Conn.Close()
}
