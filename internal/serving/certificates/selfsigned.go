package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"
)

// selfSignedLife is how long a certificate that the server makes is valid. One in memory is replaced after half of it.
const selfSignedLife = 365 * 24 * time.Hour

// selfSign makes a certificate for localhost and the addresses (CLI-33). It is its own authority, so that a client
// can be given it to trust.
func selfSign(addresses []net.IP, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("localhost@%d", now.Unix())},
		DNSNames:              []string{"localhost"},
		IPAddresses:           addresses,
		NotBefore:             now.Add(-time.Hour), // the client's clock may be behind
		NotAfter:              now.Add(selfSignedLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}), nil
}

// selfSignedFor are the addresses of a certificate for a server that listens on one.
func selfSignedFor(listening net.IP) []net.IP {
	addresses := []net.IP{net.IPv4(127, 0, 0, 1)}
	if listening != nil && !listening.IsUnspecified() && !listening.Equal(addresses[0]) {
		addresses = append(addresses, listening)
	}
	return addresses
}

// inMemory returns a source of certificates that the server makes. It makes a new one long before the old one expires.
func inMemory(addresses []net.IP, every time.Duration, cert **tls.Certificate) *source {
	return &source{name: "self-signed certificate", every: every, load: func(ctx context.Context) (bool, error) {
		now := time.Now()
		if *cert != nil && now.Before((*cert).Leaf.NotAfter.Add(-selfSignedLife/2)) {
			return false, nil
		}
		certPEM, keyPEM, err := selfSign(addresses, now)
		if err != nil {
			return false, fmt.Errorf("self-signed certificate: %w", err)
		}
		fresh, err := parsePair(certPEM, keyPEM)
		if err != nil {
			return false, err
		}
		*cert = fresh
		klog.FromContext(ctx).Info("Generated self-signed certificate in memory")
		return true, nil
	}}
}

// inDirectory returns a source of the certificate in a directory. If there is none it is made when it is first asked
// for; if there is one it is used, whoever made it.
func inDirectory(dir, name string, addresses []net.IP, every time.Duration, cert **tls.Certificate) *source {
	files := pair{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
	s := pairSource(files, every, cert)
	load := s.load
	s.load = func(ctx context.Context) (bool, error) {
		if *cert == nil {
			if err := files.ensure(ctx, addresses); err != nil {
				return false, fmt.Errorf("certificate in %s: %w", dir, err)
			}
		}
		return load(ctx)
	}
	return s
}

// ensure writes a self-signed certificate unless both files exist.
func (p pair) ensure(ctx context.Context, addresses []net.IP) error {
	_, noCert := os.Stat(p.cert)
	_, noKey := os.Stat(p.key)
	switch {
	case noCert == nil && noKey == nil:
		return nil
	case !errors.Is(noCert, fs.ErrNotExist) || !errors.Is(noKey, fs.ErrNotExist):
		return errors.Join(noCert, noKey) // half of a pair is not ours to overwrite
	}
	cert, key, err := selfSign(addresses, time.Now())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.cert), 0o755); err != nil {
		return err
	}
	if err := writeFile(p.key, key, 0o600); err != nil {
		return err
	}
	if err := writeFile(p.cert, cert, 0o644); err != nil {
		return errors.Join(err, os.Remove(p.key))
	}
	klog.FromContext(ctx).Info("Generated self-signed certificate", "certificate", p.cert, "key", p.key)
	return nil
}

// writeFile writes a file that must not exist yet.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
