package serving

import (
	"crypto/tls"
	"errors"
	"slices"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

// TLS says how connections are secured (CLI-32..34).
type TLS struct {
	certificates.Server

	MinVersion      uint16        // 0: as Go has it, which is 1.2
	CipherSuites    []uint16      // nil: as Go has them
	Curves          []tls.CurveID // nil: as Go has them
	DisableHTTP2    bool
	HTTP2MaxStreams int // on one connection; 0: as Go has it
}

// check refuses what net/http would refuse only once the server runs.
func (t TLS) check() error {
	if t.DisableHTTP2 || t.CipherSuites == nil || t.MinVersion >= tls.VersionTLS13 {
		return nil
	}
	for _, needed := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} {
		if slices.Contains(t.CipherSuites, needed) {
			return nil
		}
	}
	return errors.New("HTTP/2 over TLS 1.2 needs cipher suite TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or " +
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: accept one of them, or TLS 1.3 only, or serve without HTTP/2")
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

// newTLSConfig is the TLS configuration of connections from now on, with the authorities as they are now.
func (s *Server) newTLSConfig() *tls.Config {
	c := &tls.Config{
		MinVersion:       s.config.TLS.MinVersion,
		CipherSuites:     s.config.TLS.CipherSuites,
		CurvePreferences: s.config.TLS.Curves,
		NextProtos:       []string{"h2", "http/1.1"},
		GetCertificate:   s.certificates.GetCertificate(),
		// Each connection proves anew who the client is. Those who connect often, as kubelets do, keep no tickets
		// anyway.
		SessionTicketsDisabled: true,
	}
	if s.config.TLS.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	if hints := s.certificates.ClientCAs(); hints != nil {
		// The certificate is verified with each request, by the authorities of that time, not here.
		c.ClientAuth, c.ClientCAs = tls.RequestClientCert, hints
	}
	return c
}
