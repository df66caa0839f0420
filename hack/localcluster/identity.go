package main

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// managerUser is who kube-controller-manager is to the API server. Its rights come with the API server's own RBAC roles.
const managerUser = "system:kube-controller-manager"

// credentials are all that a client of the API server needs; everything is PEM.
type credentials struct {
	ca, cert, key []byte
}

// adminUser is the cluster's administrator, as kubeadm has it.
const adminUser = "kubernetes-admin"

// adminCredentials reads those of the cluster's administrator.
func adminCredentials(pki string) (credentials, error) {
	var c credentials
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{"ca.crt", &c.ca}, {"admin.crt", &c.cert}, {"admin.key", &c.key}} {
		data, err := os.ReadFile(filepath.Join(pki, f.name))
		if err != nil {
			return credentials{}, err
		}
		*f.to = data
	}
	return c, nil
}

// newCredentials makes a certificate for a user, signed by the cluster's CA.
func newCredentials(pki, user string) (credentials, error) {
	caPEM, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return credentials{}, err
	}
	caKeyPEM, err := os.ReadFile(filepath.Join(pki, "ca.key"))
	if err != nil {
		return credentials{}, err
	}
	ca, caKey, err := parseCA(caPEM, caKeyPEM)
	if err != nil {
		return credentials{}, fmt.Errorf("cluster CA: %w", err)
	}
	return (&authority{ca, caKey}).issue(pkix.Name{CommonName: user})
}

func parseCA(certPEM, keyPEM []byte) (*x509.Certificate, crypto.Signer, error) {
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("no PEM data")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	if key, err := x509.ParsePKCS1PrivateKey(keyBlock.Bytes); err == nil {
		return cert, key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("cannot sign with a %T", parsed)
	}
	return cert, key, nil
}

var kubeconfigTemplate = template.Must(template.New("").Parse(`apiVersion: v1
kind: Config
clusters:
- name: {{ .Cluster }}
  cluster:
    server: {{ .Server }}
    certificate-authority-data: {{ .CA }}
users:
- name: {{ .User }}
  user:
    client-certificate-data: {{ .Cert }}
    client-key-data: {{ .Key }}
contexts:
- name: {{ .Cluster }}
  context: {cluster: {{ .Cluster }}, user: "{{ .User }}"}
current-context: {{ .Cluster }}
`))

// kubeconfig renders a self-contained kubeconfig.
func (c credentials) kubeconfig(cluster, user, server string) ([]byte, error) {
	var out bytes.Buffer
	err := kubeconfigTemplate.Execute(&out, map[string]string{
		"Cluster": cluster, "User": user, "Server": server,
		"CA":   base64.StdEncoding.EncodeToString(c.ca),
		"Cert": base64.StdEncoding.EncodeToString(c.cert),
		"Key":  base64.StdEncoding.EncodeToString(c.key),
	})
	return out.Bytes(), err
}
