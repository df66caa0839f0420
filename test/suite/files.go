package suite

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// files makes the files and returns their folder. They are the same for all simulations of a process.
var files = sync.OnceValue(func() string {
	dir, err1 := os.MkdirTemp("", "controller-manager-simulation-")
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		panic(err) // no test can go on without
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulation"}, NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err1 := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	text, err2 := keyutil.MarshalPrivateKeyToPEM(key)
	err3 := os.WriteFile(filepath.Join(dir, "sa.key"), text, 0o600)
	err4 := os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		panic(err)
	}
	return dir
})
