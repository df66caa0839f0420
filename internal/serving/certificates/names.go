package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Named is for clients that ask for one of the names (SNI); without names for those in the certificate.
type Named struct {
	CertFile, KeyFile string
	Names             []string
}

// named is a certificate with its names.
type named struct {
	names []string // as given
	cert  *tls.Certificate
}

// byName returns how to choose a certificate: for the name that the client asks for or, if it asks for none, for the
// address it has connected to. Names that are given go before those that certificates have, and earlier before later
// ones.
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
