package csrutil

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// encoded returns a request that is signed by a key; nil for a new one.
func encoded(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	var err error
	if key == nil {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestParse(t *testing.T) { // CSR-7
	good := encoded(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "n"}}, nil)
	block, _ := pem.Decode(good)
	otherType := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})
	forged := slices.Clone(block.Bytes)
	forged[bytes.Index(forged, []byte("n0"))] = 'm' // another name than the one that was signed
	for _, c := range []struct {
		name string
		pem  []byte
		want string // of the error
	}{
		{"one block", good, ""},
		{"one block with white space around it", slices.Concat([]byte("\n"), good, []byte(" \n")), ""},
		{"nothing", nil, "not a PEM block"},
		{"no PEM", []byte("x"), "not a PEM block"},
		{"another type", otherType, "not a PEM block of the type CERTIFICATE REQUEST"},
		{"two blocks", slices.Concat(good, good), "more than one PEM block"},
		{"text around it", slices.Concat([]byte("a\n"), good, []byte("b\n")), ""},
		{"no request", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}), "cannot be read"},
		{"CSR-18 the signature is of something else", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}),
			"not signed with its own key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := Parse(c.pem)
			if c.want == "" {
				if err != nil || parsed.Subject.CommonName != "n" {
					t.Errorf("%v, %v", parsed, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

func requestWith(conditions ...certificatesv1.CertificateSigningRequestCondition) *Request {
	return &Request{Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conditions}}
}

func TestConditions(t *testing.T) {
	condition := func(kind certificatesv1.RequestConditionType, status string) certificatesv1.CertificateSigningRequestCondition {
		c := certificatesv1.CertificateSigningRequestCondition{Type: kind}
		c.Status = "True"
		if status != "True" {
			c.Status = ""
		}
		if status == "False" {
			c.Status = "False"
		}
		return c
	}
	approved, denied, failed := condition("Approved", "True"), condition("Denied", "True"), condition("Failed", "True")
	for _, c := range []struct {
		name                      string
		r                         *Request
		approved, decided, failed bool
	}{
		{"CSR-6 no conditions", requestWith(), false, false, false},
		{"CSR-6 approved", requestWith(approved), true, true, false},
		{"CSR-6 denied", requestWith(denied), false, true, false},
		{"CSR-6 both", requestWith(approved, denied), false, true, false},
		{"CSR-6 another condition", requestWith(condition("Pending", "True")), false, false, false},
		{"CSR-15 given up", requestWith(approved, failed), true, true, true},
		{"CSR-15 given up, without a status", requestWith(condition("Failed", "")), false, false, true},
		{"CSR-15 not given up after all", requestWith(condition("Failed", "False")), false, false, false},
	} {
		if Approved(c.r) != c.approved || Decided(c.r) != c.decided || Failed(c.r) != c.failed {
			t.Errorf("%s: approved %t, decided %t, failed %t", c.name, Approved(c.r), Decided(c.r), Failed(c.r))
		}
	}
}

// node is what a kubelet asks for.
func node(edits ...func(*x509.CertificateRequest)) *x509.CertificateRequest {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func called(name string) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) { r.Subject.CommonName = name }
}

func of(organizations ...string) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) { r.Subject.Organization = organizations }
}

func dns(r *x509.CertificateRequest)   { r.DNSNames = []string{"n"} }
func ip(r *x509.CertificateRequest)    { r.IPAddresses = []net.IP{{10, 0, 0, 1}} }
func email(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b.c"} }
func uri(r *x509.CertificateRequest)   { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "n"}} }

// The texts are those of the original, which was run to see them.
func TestViolations(t *testing.T) {
	const (
		serving    = certificatesv1.KubeletServingSignerName
		client     = certificatesv1.KubeAPIServerClientKubeletSignerName
		any        = certificatesv1.KubeAPIServerClientSignerName
		sign       = certificatesv1.UsageDigitalSignature
		encipher   = certificatesv1.UsageKeyEncipherment
		server     = certificatesv1.UsageServerAuth
		clientAuth = certificatesv1.UsageClientAuth
		caUsage    = certificatesv1.UsageCertSign
		wrongOrg   = "subject organization is not system:nodes"
		wrongName  = "subject common name does not begin with system:node:"
		forServing = "usages did not match [digital signature key encipherment server auth]"
		forClient  = "usages did not match [client auth digital signature key encipherment]"
	)
	type usages []certificatesv1.KeyUsage
	for _, c := range []struct {
		name   string
		signer string
		usages usages
		asks   *x509.CertificateRequest
		want   string
	}{
		{"CSR-22 with a DNS name", serving, usages{sign, server}, node(dns), ""},
		{"CSR-22 with an address, and for old ciphers", serving, usages{server, encipher, sign}, node(ip), ""},
		{"CSR-22 nothing to serve as", serving, usages{sign, server}, node(), "DNS or IP subjectAltName is required"},
		{"CSR-22 an email address alone", serving, usages{sign, server}, node(email), "DNS or IP subjectAltName is required"},
		{"CSR-22 an email address", serving, usages{sign, server}, node(dns, email, uri), "Email subjectAltNames are not allowed"},
		{"CSR-22 a URI", serving, usages{sign, server}, node(dns, uri), "URI subjectAltNames are not allowed"},
		{"CSR-22 no node", serving, usages{sign, server}, node(dns, called("admin")), wrongName},
		{"CSR-22 another organization", serving, usages{sign, server}, node(dns, of("system:masters")), wrongOrg},
		{"CSR-22 an organization too many", serving, usages{sign, server}, node(dns, of("system:nodes", "system:masters")), wrongOrg},
		{"CSR-22 no organization", serving, usages{sign, server}, node(dns, of()), wrongOrg},
		{"CSR-22 the certificate of an authority", serving, usages{server, caUsage}, node(dns), forServing},
		{"CSR-22 a usage too many", serving, usages{sign, server, caUsage}, node(dns), forServing},
		{"CSR-22 for clients, too", serving, usages{sign, server, clientAuth}, node(dns), forServing},
		{"CSR-22 no usages", serving, nil, node(dns), forServing},
		{"CSR-23 a kubelet", client, usages{sign, clientAuth}, node(), ""},
		{"CSR-23 for old ciphers", client, usages{encipher, sign, clientAuth}, node(), ""},
		{"CSR-23 a usage is missing", client, usages{clientAuth}, node(), forClient},
		{"CSR-23 a usage too many", client, usages{sign, clientAuth, caUsage}, node(), forClient},
		{"CSR-23 for servers", client, usages{sign, server}, node(), forClient},
		{"CSR-23 a DNS name", client, usages{sign, clientAuth}, node(ip, email, dns), "DNS subjectAltNames are not allowed"},
		{"CSR-23 an email address", client, usages{sign, clientAuth}, node(ip, email), "Email subjectAltNames are not allowed"},
		{"CSR-23 an address", client, usages{sign, clientAuth}, node(ip, uri), "IP subjectAltNames are not allowed"},
		{"CSR-23 a URI", client, usages{sign, clientAuth}, node(uri), "URI subjectAltNames are not allowed"},
		{"CSR-23 no node", client, usages{sign, clientAuth}, node(called("system:admin")), wrongName},
		{"CSR-23 another organization", client, usages{sign, clientAuth}, node(of("System:nodes")), wrongOrg},
		// Of several reasons, one is named: the first in the order of kube-controller-manager.
		{"CSR-22 first the organization", serving, nil, node(email, of("x"), called("me")), wrongOrg},
		{"CSR-22 then the alternative names", serving, nil, node(called("me")), "DNS or IP subjectAltName is required"},
		{"CSR-22 then the usages, and the name last", serving, nil, node(dns, called("me")), forServing},
		{"CSR-23 first the organization", client, nil, node(dns, of("x"), called("me")), wrongOrg},
		{"CSR-23 then the alternative names", client, nil, node(uri, called("me")), "URI subjectAltNames are not allowed"},
		{"CSR-23 then the name, and the usages last", client, nil, node(called("me")), wrongName},
		{"CSR-24 any client", any, usages{clientAuth, sign, encipher}, node(called("me"), of("mine"), dns, uri), ""},
		{"CSR-24 a server", any, usages{server}, node(), "invalid usage for client certificate: server auth"},
		{"CSR-24 no client", any, usages{sign}, node(), "missing required usage for client certificate: client auth"},
		{"CSR-24 no usages", any, nil, node(), "missing required usage for client certificate: client auth"},
		{"CSR-25 anything of old versions", LegacyUnknown, usages{caUsage, "x"}, node(called(""), of()), ""},
		{"CSR-26 a signer that is not known", "kubernetes.io/x", usages{sign}, node(), `the signer "kubernetes.io/x" is not known`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Violation(c.signer, c.usages, c.asks); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestUsages(t *testing.T) {
	for _, c := range []struct {
		name     string
		usages   []certificatesv1.KeyUsage
		key      x509.KeyUsage
		purposes []x509.ExtKeyUsage
		err      string
	}{
		{"CSR-27 all usages of keys",
			[]certificatesv1.KeyUsage{"signing", "digital signature", "content commitment", "key encipherment", "key agreement",
				"data encipherment", "cert sign", "crl sign", "encipher only", "decipher only"}, 1<<9 - 1, nil, ""},
		{"CSR-27 signing is the digital signature", []certificatesv1.KeyUsage{"signing"}, x509.KeyUsageDigitalSignature, nil, ""},
		{"CSR-28 all purposes, sorted, each once",
			[]certificatesv1.KeyUsage{"netscape sgc", "microsoft sgc", "ocsp signing", "timestamping", "ipsec user", "ipsec tunnel",
				"ipsec end system", "s/mime", "email protection", "code signing", "client auth", "server auth", "any"}, 0,
			[]x509.ExtKeyUsage{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, ""},
		{"CSR-28 names that are not known", []certificatesv1.KeyUsage{"client auth", "x", ""}, 0, nil,
			`unrecognized usage values: ["x" ""]`},
	} {
		key, purposes, err := Usages(c.usages)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if diff := cmp.Diff(c.purposes, purposes); err != nil || key != c.key || diff != "" {
			t.Errorf("%s: %b, %v: %s", c.name, key, err, diff)
		}
	}
}

// FuzzParse: whatever is asked for, it is understood or refused, and what no signer refuses is what a signer can sign.
func FuzzParse(f *testing.F) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		f.Fatal(err)
	}
	good := encoded(f, node(dns, ip, uri, email), key)
	for _, seed := range [][]byte{good, good[:len(good)/2], encoded(f, node(), nil), nil,
		[]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		for _, signer := range Signers() {
			_ = Violation(signer, nil, parsed)
		}
		if KubeletViolation([]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			parsed) == "" &&
			(!slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) || len(parsed.DNSNames)+len(parsed.IPAddresses) > 0) {
			t.Errorf("%+v passes for a kubelet", parsed)
		}
	})
}
