package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// frontProxy is who the API server is to aggregated API servers, as kubeadm has it.
const frontProxy = "front-proxy-client"

// writePKI writes what kubeadm gives an API server beside the cluster's CA: a CA of its own for the API server as a proxy
// before aggregated APIs, with a certificate, and the key pair for tokens of service accounts. The names are those of kubeadm.
func writePKI(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca, err := newCA("front-proxy-ca", key)
	if err != nil {
		return err
	}
	client, err := ca.issue(pkix.Name{CommonName: frontProxy})
	if err != nil {
		return err
	}
	tokens, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(tokens.Public())
	if err != nil {
		return err
	}
	caKey, err := keyPEM(ca.key)
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{
		"front-proxy-ca.crt":     client.ca,
		"front-proxy-ca.key":     caKey,
		"front-proxy-client.crt": client.cert,
		"front-proxy-client.key": client.key,
		"sa.key":                 rsaPEM(tokens),
		"sa.pub":                 pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	})
}

// writeClusterPKI writes the cluster's CA, which also signs what a controller manager signs, with certificates for the API server and for
// the administrator. The names are those of kubeadm.
func writeClusterPKI(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	ca, err := newCA("kubernetes", key)
	if err != nil {
		return err
	}
	admin, err := ca.issue(pkix.Name{CommonName: adminUser, Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	server, err := ca.issue(pkix.Name{CommonName: "kube-apiserver"}, "127.0.0.1", "::1", "10.0.0.1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{
		"ca.crt":        admin.ca,
		"ca.key":        rsaPEM(key),
		"admin.crt":     admin.cert,
		"admin.key":     admin.key,
		"apiserver.crt": server.cert,
		"apiserver.key": server.key,
	})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// authority is a CA that can sign.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newCA(name string, key crypto.Signer) (*authority, error) {
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0), // longer than any certificate that a manager signs with it: that would end with it
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

// issue makes a key and a certificate: for a server if it has names or addresses, and otherwise for a client.
func (a *authority) issue(subject pkix.Name, hosts ...string) (credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return credentials{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return credentials{}, err
	}
	encoded, err := keyPEM(key)
	if err != nil {
		return credentials{}, err
	}
	return credentials{ca: certPEM(a.cert.Raw), cert: certPEM(cert), key: encoded}, nil
}

func rsaPEM(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
