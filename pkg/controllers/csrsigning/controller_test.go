package csrsigning

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	serving   = certificatesv1.KubeletServingSignerName
	kubelet   = certificatesv1.KubeAPIServerClientKubeletSignerName
	apiClient = certificatesv1.KubeAPIServerClientSignerName
)

// parsed returns the one certificate of a PEM.
func parsed(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 || block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
		t.Fatalf("not one certificate: %q", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is signed says what was asked for and nothing more, and verifies with the standard library.
func TestCertificates(t *testing.T) { // CSR-17, CSR-18
	asked := csrtest.Node()
	asked.DNSNames, asked.IPAddresses = []string{"n", "n.example.com"}, []net.IP{{10, 0, 0, 1}}
	asked.ExtraExtensions = []pkix.Extension{ // that would make it an authority
		{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}},
	}
	asked.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "uid"}}
	ca := csrtest.NewAuthority("ca", epoch.Add(-year), epoch.Add(10*year))
	ordered, violation := read(csrtest.Kubelet(csrtest.Asks(asked),
		csrtest.Signer(serving, "server auth", "key encipherment", "digital signature")))
	if violation != "" {
		t.Fatal(violation)
	}
	by, serials := &issuer{ca.Cert, ca.Key}, map[string]bool{}
	for range 10 {
		text, err := by.sign(epoch, ordered, year)
		if err != nil {
			t.Fatal(err)
		}
		c := parsed(t, text)
		serials[c.SerialNumber.String()] = true
		roots := x509.NewCertPool()
		roots.AddCert(ca.Cert)
		options := x509.VerifyOptions{Roots: roots, CurrentTime: epoch, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			DNSName: "n.example.com"}
		if _, err := c.Verify(options); err != nil {
			t.Error(err)
		}
		if c.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment ||
			!cmp.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
			t.Errorf("it is for %b, %v", c.KeyUsage, c.ExtKeyUsage)
		}
		if !c.BasicConstraintsValid || c.IsCA || c.SerialNumber.BitLen() > 128 || !bytes.Equal(c.AuthorityKeyId, ca.Cert.SubjectKeyId) ||
			!cmp.Equal(c.IPAddresses[0].String(), "10.0.0.1") {
			t.Errorf("%+v", c)
		}
		if want := "CN=system:node:n,O=system:nodes"; c.Subject.String() != want || c.Issuer.String() != "CN=ca" {
			t.Errorf("%s, by %s; want %s", c.Subject, c.Issuer, want)
		}
	}
	if len(serials) != 10 {
		t.Errorf("%d serial numbers", len(serials))
	}
}

// An authority that has expired signs nothing.
func TestExpiredAuthority(t *testing.T) { // CSR-21
	ca := csrtest.NewAuthority("ca", epoch.Add(-year), epoch)
	ordered, _ := read(csrtest.Kubelet())
	if _, err := (&issuer{ca.Cert, ca.Key}).sign(epoch.Add(time.Second), ordered, year); err == nil ||
		!strings.HasPrefix(err.Error(), "the signer has expired: NotAfter=") {
		t.Error(err)
	}
}

// bench has a controller with these flags.
type bench struct {
	*testing.T
	server   *clienttest.Server
	registry metrics.KubeRegistry
}

// run runs the controller in virtual time, which begins at epoch, while a test works. It returns the log.
func run(t *testing.T, flags map[string]string, test func(b *bench)) (log string) {
	t.Helper()
	return managertest.InVirtualTime(t, epoch, func(t *testing.T, server *clienttest.Server) {
		entry := New(Options{})
		if err := managertest.SetFlags([]manager.Controller{entry}, flags); err != nil {
			t.Fatal(err)
		}
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &csrutil.Request{}})
		registry := metrics.NewKubeRegistry()
		c.RegisterMetrics = registry.MustRegister
		managertest.Run(t, c, entry, func() { test(&bench{t, server, registry}) })
	})
}

// put stores an approved request and waits until nothing is left to do.
func (b *bench) put(name string, edits ...func(*csrutil.Request)) {
	b.Helper()
	r := csrtest.Kubelet(append([]func(*csrutil.Request){csrtest.Approved,
		func(r *csrutil.Request) { r.Name, r.UID = name, types.UID(name) }}, edits...)...)
	if _, err := b.server.Put(r); err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// get returns the request.
func (b *bench) get(name string) *csrutil.Request {
	b.Helper()
	requests := client.MappingFor[*certificatesv1.CertificateSigningRequest]()
	r := &csrutil.Request{}
	if err := b.server.Get(b.Context(), requests, plan.Key{Name: name}, r); err != nil {
		b.Fatal(err)
	}
	return r
}

// signedBy says which authority has signed a request; empty if none has.
func (b *bench) signedBy(name string) string {
	b.Helper()
	r := b.get(name)
	if len(r.Status.Certificate) == 0 {
		return ""
	}
	return parsed(b, r.Status.Certificate).Issuer.CommonName
}

// Each signer signs with its own authority; those that have none leave their requests alone.
func TestSigners(t *testing.T) { // CSR-9, CSR-15, CSR-26
	one, two := csrtest.NewAuthority("one", epoch, epoch.Add(year)), csrtest.NewAuthority("two", epoch, epoch.Add(year))
	cert1, key1 := one.Write(t, t.TempDir())
	cert2, key2 := two.Write(t, t.TempDir())
	log := run(t, map[string]string{
		"cluster-signing-kubelet-client-cert-file": cert1, "cluster-signing-kubelet-client-key-file": key1,
		"cluster-signing-legacy-unknown-cert-file": cert2, "cluster-signing-legacy-unknown-key-file": key2,
	}, func(b *bench) {
		b.put("a")
		b.put("b", csrtest.Signer(csrutil.LegacyUnknown, "code signing"))
		b.put("c", csrtest.Signer(apiClient, "client auth"))
		b.put("d", csrtest.Signer("example.com/x", "client auth"))
		for name, want := range map[string]string{"a": "one", "b": "two", "c": "", "d": ""} {
			if got := b.signedBy(name); got != want {
				b.Errorf("%s is signed by %q, want %q", name, got, want)
			}
		}
	})
	if strings.Count(log, "Skipping CSR signer controller because specific files were specified for other signers and not this one") != 1 {
		t.Error(log)
	}
}

// Writes that hang keep all workers of one signer, and its queue grows. Another signer goes on.
func TestCSR51SignersDoNotWaitForOneAnother(t *testing.T) { // CSR-1, CSR-51
	cert, key := csrtest.NewAuthority("ca", epoch, epoch.Add(year)).Write(t, t.TempDir())
	run(t, map[string]string{"cluster-signing-cert-file": cert, "cluster-signing-key-file": key}, func(b *bench) {
		b.server.BeforeWrite(func(w clienttest.Write) error {
			if strings.HasPrefix(w.Key.Name, "slow-") {
				time.Sleep(time.Minute)
			}
			return nil
		})
		for i := range workers + 2 {
			b.put(fmt.Sprint("slow-", i), csrtest.Signer(apiClient, "client auth"))
		}
		b.put("a")
		if got := b.signedBy("a"); got != "ca" {
			b.Errorf("while another signer is slow, a request is signed by %q", got)
		}
		if got := b.depths(); got != "kubernetes.io/kube-apiserver-client 2" {
			b.Errorf("requests wait: %s", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got, waiting := b.signedBy(fmt.Sprint("slow-", workers+1)), b.depths(); got != "ca" || waiting != "" {
			b.Errorf("in the end the last one is signed by %q, and there wait: %s", got, waiting)
		}
	})
}

// depths are the signers in whose queues something waits, as their metric tells.
func (b *bench) depths() string {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if n := m.GetGauge().GetValue(); f.GetName() == "certificate_signer_queue_depth" && n > 0 {
				all = append(all, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", n))
			}
		}
	}
	return strings.Join(all, ", ")
}

// A request that breaks the rules is given up with one write, and the log says why.
func TestGivesUp(t *testing.T) { // CSR-16, CSR-22
	cert, key := csrtest.NewAuthority("ca", epoch, epoch.Add(year)).Write(t, t.TempDir())
	log := run(t, map[string]string{"cluster-signing-cert-file": cert, "cluster-signing-key-file": key}, func(b *bench) {
		b.put("a", csrtest.Signer(serving, "server auth", "digital signature"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if writes := b.server.Writes(); len(writes) != 1 || writes[0].Verb != "update" || writes[0].Options.Subresource != "status" ||
			!csrutil.Failed(b.get("a")) {
			b.Error(b.server.Log())
		}
	})
	if !strings.Contains(log, `"Gave up a request for a certificate"`) || !strings.Contains(log, "DNS or IP subjectAltName is required") {
		t.Error(log)
	}
}

// The files are read again when they change. While only one of them has, what was there before signs. When an expired authority is
// replaced, what waits is signed soon.
func TestCSR14Rotation(t *testing.T) { // CSR-14, CSR-21
	dir := t.TempDir()
	cert, key := csrtest.NewAuthority("old", epoch.Add(-time.Hour), epoch.Add(time.Hour)).Write(t, dir)
	log := run(t, map[string]string{"cluster-signing-cert-file": cert, "cluster-signing-key-file": key}, func(b *bench) {
		b.put("a")
		next, last := csrtest.NewAuthority("new", epoch.Add(-time.Hour), epoch.Add(year)),
			csrtest.NewAuthority("last", epoch.Add(-time.Hour), epoch.Add(year))
		write := func(path string, text []byte) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				b.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		write(cert, next.PEM())
		b.put("b")
		time.Sleep(2 * time.Hour)
		b.put("c") // the old one has expired
		if got := b.signedBy("c"); got != "" {
			b.Errorf("an expired authority has signed: %s", got)
		}
		write(key, next.KeyPEM())
		if err := errors.Join(os.WriteFile(cert, last.PEM(), 0o600), os.WriteFile(key, last.KeyPEM(), 0o600)); err != nil {
			b.Fatal(err)
		}
		b.put("d") // at once: the new files sign from the next signature on
		for name, want := range map[string]string{"a": "old", "b": "old", "c": "new", "d": "last"} {
			if got := b.signedBy(name); got != want {
				b.Errorf("%s is signed by %q, want %q", name, got, want)
			}
		}
	})
	if strings.Count(log, "do not belong together") != 1 || !strings.Contains(log, "the signer has expired") {
		t.Error(log)
	}
}

// A file may have a chain. The authority whose key it is signs, and the certificate comes alone.
func TestChain(t *testing.T) { // CSR-17, CSR-54
	root := csrtest.NewAuthority("root", epoch.Add(-time.Hour), epoch.Add(year))
	cert, key := root.Below("middle").Write(t, t.TempDir(), root)
	run(t, map[string]string{"cluster-signing-cert-file": cert, "cluster-signing-key-file": key}, func(b *bench) {
		b.put("a")
		if got := b.signedBy("a"); got != "middle" {
			b.Errorf("signed by %q", got)
		}
	})
}

// What is wrong with files ends the process when it starts, with one line.
func TestFilesThatAreNoGood(t *testing.T) { // CSR-13
	cert, key := csrtest.NewAuthority("ca", epoch, epoch.Add(year)).Write(t, t.TempDir())
	_, other := csrtest.NewAuthority("ca", epoch, epoch.Add(year)).Write(t, t.TempDir())
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct{ cert, key, want string }{
		{none, key, "error reading CA cert file"},
		{cert, none, "error reading CA key file"},
		{key, key, "error reading CA cert file"},
		{cert, cert, "error reading CA key file"},
		{cert, other, "no certificate in"},
	} {
		entry := New(Options{})
		flags := map[string]string{"cluster-signing-cert-file": c.cert, "cluster-signing-key-file": c.key}
		if err := managertest.SetFlags([]manager.Controller{entry}, flags); err != nil {
			t.Fatal(err)
		}
		_, err := entry.Init(manager.Context{})
		if err == nil || !strings.Contains(err.Error(), "failed to init "+serving+" certificate controller: "+c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// The seconds until an authority expires are those at the moment of the question.
func TestMetrics(t *testing.T) { // CSR-51, CSR-53
	cert, key := csrtest.NewAuthority("ca", epoch, epoch.Add(time.Hour)).Write(t, t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(epoch))
		authorities, err := openAuthorities(map[string]Pair{apiClient: {cert, key}, serving: {cert, key}})
		if err != nil {
			t.Fatal(err)
		}
		c, registry := newCollectors(authorities, nil), metrics.NewKubeRegistry()
		registry.MustRegister(c.all()...)
		for _, want := range []float64{3600, 3000} {
			families, err := registry.Gather()
			if err != nil || len(families) != 1 || families[0].GetName() != "certificate_signer_ca_expiry_seconds" ||
				len(families[0].GetMetric()) != 2 {
				t.Fatal(err, families)
			}
			m := families[0].GetMetric()[0]
			if got := m.GetGauge().GetValue(); got != want || m.GetLabel()[0].GetValue() != apiClient {
				t.Errorf("%v, want %v", m, want)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// BenchmarkSign signs and plans.
func BenchmarkSign(b *testing.B) {
	ca := csrtest.NewAuthority("ca", epoch.Add(-year), epoch.Add(10*year))
	r := csrtest.Kubelet(csrtest.Approved)
	for b.Loop() {
		ordered, _ := read(r)
		text, err := (&issuer{ca.Cert, ca.Key}).sign(epoch, ordered, year)
		if p := planCertificate(epoch, snapshot{Request: r}); err != nil || len(text) == 0 || p.Empty() {
			b.Fatal(err, p.Why)
		}
	}
}

// FuzzSign: what no rule forbids can be signed, whatever was asked for, so nothing waits for ever.
func FuzzSign(f *testing.F) {
	ca := csrtest.NewAuthority("ca", epoch.Add(-year), epoch.Add(10*year))
	f.Add(csrtest.PEM(csrtest.Node()), int32(600))
	asked := csrtest.Node()
	asked.DNSNames, asked.EmailAddresses, asked.IPAddresses = []string{"*.n", "xn--n"}, []string{"a@b"}, []net.IP{net.ParseIP("::1")}
	f.Add(csrtest.PEM(asked), int32(0))
	f.Fuzz(func(t *testing.T, text []byte, seconds int32) {
		r := &csrutil.Request{}
		r.Spec.SignerName, r.Spec.Usages = csrutil.LegacyUnknown, []certificatesv1.KeyUsage{certificatesv1.UsageAny}
		r.Spec.Request, r.Spec.ExpirationSeconds = text, &seconds
		ordered, violation := read(r)
		if violation != "" {
			return
		}
		signed, err := (&issuer{ca.Cert, ca.Key}).sign(epoch, ordered, year)
		if err != nil {
			t.Fatal(err)
		}
		if c := parsed(t, signed); c.IsCA || c.NotAfter.After(epoch.Add(year)) || c.CheckSignatureFrom(ca.Cert) != nil {
			t.Errorf("%+v", c)
		}
	})
}
