package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/files"
)

// pair is a certificate and its key, in two files.
type pair struct{ cert, key string }

// read returns the certificate of the files, or nil if they are as before.
func (p pair) read(before *tls.Certificate, beforeKey []byte) (*tls.Certificate, []byte, error) {
	cert, err := files.Read(p.cert)
	if err != nil {
		return nil, nil, err
	}
	key, err := files.Read(p.key)
	if err != nil {
		return nil, nil, err
	}
	fresh, err := parsePair(cert, key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s with key %s: %w", p.cert, p.key, err)
	}
	if before != nil && bytes.Equal(key, beforeKey) && equalChains(fresh.Certificate, before.Certificate) {
		return nil, nil, nil
	}
	return fresh, key, nil
}

// equalChains reports whether two chains have the same certificates.
func equalChains(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) && len(a) == len(b)
}

// parsePair reads a certificate and its key, which have to belong together.
func parsePair(cert, key []byte) (*tls.Certificate, error) {
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if parsed.Leaf == nil {
		if parsed.Leaf, err = x509.ParseCertificate(parsed.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &parsed, nil
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
