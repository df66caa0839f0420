package csrsigning

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/standalone-kcm/controller-manager/internal/files"
)

// authority is a certificate authority whose files may change while the process runs (CSR-14). It is safe for
// concurrent use.
type authority struct {
	// pair are the paths of the files.
	pair Pair
	// certs and key are the files, which are read again when they change.
	certs *files.File[[]*x509.Certificate]
	key   *files.File[crypto.Signer]

	mu sync.Mutex
	// current is the last pair that belonged together.
	current *issuer
}

// issuer is a certificate and its key, which belong together. It is never changed: a new pair is a new
// issuer.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// openAuthority reads both files. It fails if one is no good, or if they do not belong together (CSR-13).
func openAuthority(p Pair) (*authority, error) {
	a := &authority{pair: p}
	var err error
	if a.certs, err = files.Open(p.CertFile, certutil.ParseCertsPEM); err != nil {
		return nil, fmt.Errorf("error reading CA cert file %q: %w", p.CertFile, err)
	}
	if a.key, err = files.Open(p.KeyFile, parseKey); err != nil {
		return nil, fmt.Errorf("error reading CA key file %q: %w", p.KeyFile, err)
	}
	if a.issuer(); a.current == nil {
		return nil, a.mismatch()
	}
	return a, nil
}

// parseKey reads a private key in PEM.
func parseKey(text []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of the type %T cannot sign", key)
	}
	return signer, nil
}

// mismatch says so if the files do not belong together any more.
func (a *authority) mismatch() error {
	if match(a.certs.Get(), a.key.Get()) == nil {
		return fmt.Errorf("no certificate in %q belongs to the private key in %q", a.pair.CertFile, a.pair.KeyFile)
	}
	return nil
}

// match finds the certificate that the key belongs to, nil if there is none. The file may have those of a chain
// besides (CSR-54), and an older one of the same key: the one that is valid longest signs.
func match(certs []*x509.Certificate, key crypto.Signer) *issuer {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil
	}
	var longest *issuer
	for _, c := range certs {
		if public.Equal(c.PublicKey) && (longest == nil || c.NotAfter.After(longest.cert.NotAfter)) {
			longest = &issuer{c, key}
		}
	}
	return longest
}

// issuer returns what signs, as of a few seconds ago at most. While the files do not belong together, because only
// one of them has been replaced yet, that is what they said before (CSR-14).
func (a *authority) issuer() *issuer { return a.matching(a.certs.Get(), a.key.Get()) }

// issuerNow reads the files, so that a new pair signs from the next signature on (CSR-14).
func (a *authority) issuerNow() *issuer { return a.matching(a.certs.Now(), a.key.Now()) }

// matching returns the issuer among these certificates that the key belongs to. If there is none, it returns
// the last one that there was.
func (a *authority) matching(certs []*x509.Certificate, key crypto.Signer) *issuer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := match(certs, key); now != nil {
		a.current = now
	}
	return a.current
}

// follow calls changed whenever one of the files has changed, until ctx ends.
func (a *authority) follow(ctx context.Context, changed func()) {
	var both sync.WaitGroup
	both.Go(func() { a.certs.Follow(ctx, changed) })
	both.Go(func() { a.key.Follow(ctx, changed) })
	both.Wait()
}

// sign returns a certificate in PEM, the leaf alone (CSR-17).
func (i *issuer) sign(now time.Time, of *order, longest time.Duration) ([]byte, error) {
	if now.After(i.cert.NotAfter) {
		return nil, fmt.Errorf("the signer has expired: NotAfter=%v", i.cert.NotAfter)
	}
	template := of.template(now, longest, i.cert.NotAfter)
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128)); err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, of.Request.PublicKey, i.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
