package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/standalone-kcm/controller-manager/internal/files"
)

// authorities are certificates by which those of clients are verified.
type authorities struct {
	pem   []byte
	certs []*x509.Certificate
	pool  *x509.CertPool
}

// parseAuthorities reads authorities in PEM. The name says where they come from.
func parseAuthorities(name string, pem []byte) (*authorities, error) {
	certs, err := certutil.ParseCertsPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities of %s: %w", name, err)
	}
	return &authorities{pem: pem, certs: certs, pool: poolOf(certs)}, nil
}

// poolOf makes a pool of certificates.
func poolOf(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return pool
}

// verifyOptions are how a client's certificate is verified.
func (a *authorities) verifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: a.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// isStill reports whether these are the authorities of the text.
func (a *authorities) isStill(pem []byte) bool { return a != nil && bytes.Equal(a.pem, pem) }

// authoritiesFile returns a source that keeps *a as the file has it.
func authoritiesFile(path string, every time.Duration, a **authorities) *source {
	return &source{name: path, every: every, load: func(context.Context) (bool, error) {
		pem, err := files.Read(path)
		if err != nil || (*a).isStill(pem) {
			return false, err
		}
		fresh, err := parseAuthorities(path, pem)
		if err != nil {
			return false, err
		}
		*a = fresh
		return true, nil
	}}
}
