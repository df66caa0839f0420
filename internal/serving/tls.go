package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// TLS says how connections are secured (CLI-32..34).
type TLS struct {
	CertFile, KeyFile string // empty: the server makes its own certificate
	CertDir           string // where that is kept; empty: in memory
	CertName          string // of its files there, without .crt and .key
	Named             []NamedCertificate
	MinVersion        uint16        // 0: as Go has it, which is 1.2
	CipherSuites      []uint16      // nil: as Go has them
	Curves            []tls.CurveID // nil: as Go has them
	DisableHTTP2      bool
	HTTP2MaxStreams   int // on one connection; 0: as Go has it
}

// NamedCertificate is for clients that ask for one of the names (SNI); without names for those in the certificate.
type NamedCertificate struct {
	CertFile, KeyFile string
	Names             []string
}

// check refuses what net/http would refuse only once the server runs.
func (t TLS) check() error {
	if t.DisableHTTP2 || t.CipherSuites == nil || t.MinVersion >= tls.VersionTLS13 {
		return nil
	}
	for _, needed := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} {
		if slices.Contains(t.CipherSuites, needed) {
			return nil
		}
	}
	return errors.New("HTTP/2 over TLS 1.2 needs cipher suite TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or " +
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: accept one of them, or TLS 1.3 only, or serve without HTTP/2")
}

// named is a certificate with its names.
type named struct {
	names []string // as given
	cert  *tls.Certificate
}

// identity is by what the server and its clients know each other at the moment.
type identity struct {
	tls           *tls.Config
	authenticator authenticator.Request
}

func (s *Server) newIdentity() *identity {
	return &identity{tls: s.newTLSConfig(s.materials), authenticator: s.newAuthenticator(s.materials)}
}

// tlsConfig has each connection set up by what is loaded then.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: s.config.TLS.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return s.current.Load().tls, nil
		},
	}
}

func (s *Server) newTLSConfig(m *materials) *tls.Config {
	c := &tls.Config{
		MinVersion:       s.config.TLS.MinVersion,
		CipherSuites:     s.config.TLS.CipherSuites,
		CurvePreferences: s.config.TLS.Curves,
		NextProtos:       []string{"h2", "http/1.1"},
		GetCertificate:   byName(m.serving, m.named),
		// Each connection proves anew who the client is. Those who connect often, as kubelets do, keep no tickets anyway.
		SessionTicketsDisabled: true,
	}
	if s.config.TLS.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	hints := x509.NewCertPool()
	for _, a := range m.clientAuthorities() {
		for _, cert := range a.certs {
			hints.AddCert(cert)
		}
		// The certificate is verified with each request, by the authorities of that time, not here.
		c.ClientAuth, c.ClientCAs = tls.RequestClientCert, hints
	}
	return c
}

// clientAuthorities are all that a client's certificate may be from.
func (m *materials) clientAuthorities() (all []*authorities) {
	if m.clientCA != nil {
		all = append(all, m.clientCA)
	}
	if m.proxy != nil && m.proxy.ca != nil {
		all = append(all, m.proxy.ca)
	}
	return all
}

// byName returns how to choose a certificate: for the name that the client asks for or, if it asks for none, for the
// address it has connected to. Names that are given go before those that certificates have, and earlier before later ones.
func byName(otherwise *tls.Certificate, certificates []*named) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	certs := map[string]*tls.Certificate{}
	for _, given := range []bool{true, false} {
		for _, c := range certificates {
			if given != (len(c.names) > 0) {
				continue
			}
			names := c.names
			if !given {
				names = namesIn(c.cert.Leaf)
			}
			for _, name := range names {
				if name = strings.ToLower(name); certs[name] == nil {
					certs[name] = c.cert
				}
			}
		}
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
		if name == "" {
			name, _, _ = net.SplitHostPort(hello.Conn.LocalAddr().String())
		}
		if cert := certs[name]; cert != nil {
			return cert, nil
		}
		if _, domain, ok := strings.Cut(name, "."); ok && certs["*."+domain] != nil {
			return certs["*."+domain], nil
		}
		return otherwise, nil
	}
}

// namesIn are the names that a certificate is for.
func namesIn(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	common := cert.Subject.CommonName
	if net.ParseIP(common) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(common, "*."))) == 0 {
		names = append(names, common)
	}
	return names
}

// pairSource returns a source that keeps *cert as the files have it.
func pairSource(files pair, every time.Duration, cert **tls.Certificate) *source {
	var key []byte
	return &source{name: files.cert, every: every, load: func(context.Context) (bool, error) {
		fresh, freshKey, err := files.read(*cert, key)
		if fresh == nil {
			return false, err
		}
		*cert, key = fresh, freshKey
		return true, nil
	}}
}
