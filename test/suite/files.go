package suite

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// RootCAFile is a file with certificate authorities for managers in simulations. It lasts until [RemoveFiles].
func RootCAFile() string { return filepath.Join(files(), "ca.crt") }

// TokenKeyFile is a file with a key for tokens, likewise.
func TokenKeyFile() string { return filepath.Join(files(), "sa.key") }

// RemoveFiles removes these files.
func RemoveFiles() error { return os.RemoveAll(files()) }

// files makes the files and returns their folder. Their content is the same in each process: objects are called after its hash.
var files = sync.OnceValue(func() string {
	dir, err1 := os.MkdirTemp("", "controller-manager-simulation-")
	certificate, key := newAuthority("simulation")
	text, err2 := keyutil.MarshalPrivateKeyToPEM(key)
	err3 := os.WriteFile(filepath.Join(dir, "sa.key"), text, 0o600)
	err4 := os.WriteFile(filepath.Join(dir, "ca.crt"), certificate, 0o600)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		panic(err) // no test can go on without
	}
	return dir
})

// newAuthority returns the certificate of an authority, in PEM, and its key. Both follow from its name.
func newAuthority(name string) ([]byte, *ecdsa.PrivateKey) {
	secret := sha256.Sum256([]byte(name))
	key, err1 := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret[:])
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err2 := x509.CreateCertificate(nil, ca, ca, key.Public(), key) // without a source of randomness, one key signs always alike
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}
