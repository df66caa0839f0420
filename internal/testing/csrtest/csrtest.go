package csrtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
)

// key is that of all requests of a process.
var key = sync.OnceValue(newKey)

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // no test can go on without
	}
	return key
}

// Node is what a kubelet asks for.
func Node() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n",
		Organization: []string{"system:nodes"}}}
}

// PEM returns a request for this.
func PEM(template *x509.CertificateRequest) []byte { return SignedBy(template, key()) }

// SignedBy returns a request for this that is signed by some key.
func SignedBy(template *x509.CertificateRequest, key crypto.Signer) []byte {
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// Kubelet is a request for the client certificate of a kubelet, made by the kubelet itself.
func Kubelet(edits ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "join", UID: "uid-join", ResourceVersion: "7"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: PEM(Node()), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Username: "system:node:n", UID: "uid-user", Groups: []string{"system:nodes", "system:authenticated"},
			Extra: map[string]certificatesv1.ExtraValue{"scope": {"a", "b"}},
		},
	}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

// Condition adds a condition of the type that was updated then.
func Condition(kind certificatesv1.RequestConditionType, at time.Time) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: kind, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(at),
		})
	}
}

// Approved is the condition that lets a signer sign.
func Approved(r *certificatesv1.CertificateSigningRequest) {
	Condition(certificatesv1.CertificateApproved, time.Time{})(r)
}

// Signer has another signer asked, for other usages.
func Signer(name string, usages ...certificatesv1.KeyUsage) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName, r.Spec.Usages = name, usages }
}

// Asks has something else asked for.
func Asks(template *x509.CertificateRequest) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = PEM(template) }
}

// Authority is a certificate authority that signs itself.
type Authority struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// NewAuthority returns an authority of that name that expires then.
func NewAuthority(name string, from, until time.Time) *Authority {
	return newAuthority(name, from, until, nil)
}

// Below returns an authority whose certificate this one has signed.
func (a *Authority) Below(name string) *Authority {
	return newAuthority(name, a.Cert.NotBefore, a.Cert.NotAfter, a)
}

func newAuthority(name string, from, until time.Time, above *Authority) *Authority {
	a := &Authority{Key: newKey(), Cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	if above == nil {
		above = a
	}
	der, err := x509.CreateCertificate(rand.Reader, a.Cert, above.Cert, a.Key.Public(), above.Key)
	if err == nil {
		a.Cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		panic(err)
	}
	return a
}

// PEM is the certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// KeyPEM is the private key.
func (a *Authority) KeyPEM() []byte {
	text, err := keyutil.MarshalPrivateKeyToPEM(a.Key)
	if err != nil {
		panic(err)
	}
	return text
}

// Write writes the files of the authority, followed by the certificates of a chain.
func (a *Authority) Write(t testing.TB, dir string, chain ...*Authority) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certs := a.PEM()
	for _, above := range chain {
		certs = append(certs, above.PEM()...)
	}
	for name, text := range map[string][]byte{certFile: certs, keyFile: a.KeyPEM()} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
