package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/files"
)

// materials are what the server and its clients prove who they are by, as files and the cluster have it at the moment.
// After [New] only the goroutine that reloads them uses them.
type materials struct {
	sources  []*source
	serving  *tls.Certificate
	named    []*named     // certificates for names that clients ask for
	clientCA *authorities // nil: client certificates are not looked at
	proxy    *frontProxy  // nil: front proxies are not trusted
}

// source is something that may change while the server runs.
type source struct {
	name  string
	every time.Duration
	next  time.Time
	// load takes what there is now, and tells whether it is something new. What was there stays if it fails.
	load func(ctx context.Context) (changed bool, err error)
	// tolerated: it may fail at the start.
	tolerated bool
}

// first loads everything. One failure that is not tolerated is enough to fail.
func (m *materials) first(ctx context.Context, logger klog.Logger, p *problems) error {
	for _, s := range m.sources {
		s.next = time.Now().Add(s.every)
		_, err := s.load(ctx)
		switch {
		case err == nil:
		case s.tolerated:
			s.next = time.Now()
			p.report(logger, s.name, err, "Not loaded, will be tried again", "what", s.name)
		default:
			return err
		}
	}
	m.warn(logger)
	return nil
}

// again loads what is due, and tells whether anything has changed.
func (m *materials) again(ctx context.Context, logger klog.Logger, p *problems) (changed bool) {
	for _, s := range m.sources {
		if time.Now().Before(s.next) {
			continue
		}
		fresh, err := s.load(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			p.report(logger, s.name, err, "Not loaded again, what was loaded before stays", "what", s.name)
			continue // and have another look soon
		case p.over(s.name), fresh:
			logger.Info("Loaded again", "what", s.name)
		}
		s.next = time.Now().Add(s.every)
		changed = changed || fresh
	}
	if changed {
		m.warn(logger)
	}
	return changed
}

// warn says what clients are going to refuse.
func (m *materials) warn(logger klog.Logger) {
	leaf := m.serving.Leaf
	if now := time.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		logger.Info("Warning: the serving certificate is not valid now", "from", leaf.NotBefore, "until", leaf.NotAfter)
	}
}

// reload keeps the materials fresh until ctx ends.
func (s *Server) reload(ctx context.Context) {
	every := time.NewTicker(s.config.Limits.Reload)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if s.materials.again(ctx, s.logger, &s.problems) {
				s.current.Store(s.newIdentity())
			}
		}
	}
}

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

func equalChains(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) && len(a) == len(b)
}

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

// authorities are certificates by which those of clients are verified.
type authorities struct {
	pem   []byte
	certs []*x509.Certificate
	pool  *x509.CertPool
}

func parseAuthorities(name string, pem []byte) (*authorities, error) {
	certs, err := certutil.ParseCertsPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities of %s: %w", name, err)
	}
	a := &authorities{pem: pem, certs: certs, pool: x509.NewCertPool()}
	for _, cert := range certs {
		a.pool.AddCert(cert)
	}
	return a, nil
}

// verifyOptions are how a client's certificate is verified.
func (a *authorities) verifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: a.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// isStill tells whether these are the authorities of the text.
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
