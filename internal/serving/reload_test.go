package serving

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

// presented returns the name of the certificate that the server has for those who ask for a name, or for none.
func (r *running) presented(asked string) string {
	r.t.Helper()
	conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: asked})
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// pairFiles writes a certificate and its key.
func pairFiles(t testing.TB, s signed) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	return write(t, filepath.Join(dir, "crt"), s.cert), write(t, filepath.Join(dir, "key"), s.key)
}

// broken is a file with its good content, and the message when it is not.
func (r *running) staysWithout(what string, path string, good []byte, stillGood func() string) {
	r.t.Helper()
	for _, bad := range []string{"", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		before := strings.Count(r.log.String(), `"Not loaded again, what was loaded before stays"`)
		write(r.t, path, []byte(bad))
		eventually(r.t, func() string {
			if strings.Count(r.log.String(), `"Not loaded again, what was loaded before stays"`) == before {
				return what + ": nobody is told about the broken file"
			}
			return ""
		})
		time.Sleep(10 * r.config.Limits.Reload) // more looks at it
		if n := strings.Count(r.log.String(), `"Not loaded again, what was loaded before stays"`) - before; n != 1 {
			r.t.Errorf("%s: logged %d times", what, n)
		}
		if complaint := stillGood(); complaint != "" {
			r.t.Errorf("%s: with a broken file: %s", what, complaint)
		}
		loaded := strings.Count(r.log.String(), `"Loaded again"`)
		write(r.t, path, good)
		eventually(r.t, func() string {
			if strings.Count(r.log.String(), `"Loaded again"`) == loaded {
				return what + ": the good file is not loaded again"
			}
			return ""
		})
	}
}

func TestServingCertificateReloads(t *testing.T) { // CLI-32
	ca := newIssuer(t, "ca")
	one, two := ca.issue(t, "one", nil), ca.issue(t, "two", nil)
	sni, sni2 := ca.issue(t, "sni", forNames("a.example.com", "*.example.org")), ca.issue(t, "sni2", forNames("a.example.com"))
	c := basic()
	c.TLS.CertFile, c.TLS.KeyFile = pairFiles(t, one)
	cert, key := pairFiles(t, sni)
	c.TLS.Named = []certificates.Named{{CertFile: cert, KeyFile: key}}
	r := run(t, c, paths())
	if got := r.presented(""); got != "one" {
		t.Fatalf("%s", got)
	}
	kept := r.client()
	kept.Transport.(*http.Transport).ForceAttemptHTTP2 = false // or the server ends the connection
	r.do(kept, "GET", "/healthz", nil, "")                     // a connection that outlives the change
	write(t, c.TLS.CertFile, two.cert)
	write(t, c.TLS.KeyFile, two.key)
	eventually(t, func() string {
		if got := r.presented(""); got != "two" {
			return "CLI-32: still " + got
		}
		return ""
	})
	if g := r.do(kept, "GET", "/healthz", nil, ""); g.StatusCode != 200 || g.TLS.PeerCertificates[0].Subject.CommonName != "one" {
		t.Errorf("a connection that was there before: %v", g.Status)
	}
	r.staysWithout("serving certificate", c.TLS.CertFile, two.cert, func() string {
		if got := r.presented(""); got != "two" {
			return got
		}
		return ""
	})
	write(t, cert, sni2.cert)
	write(t, key, sni2.key)
	eventually(t, func() string {
		if got := r.presented("a.example.com"); got != "sni2" {
			return "CLI-34: still " + got
		}
		return ""
	})
	r.staysWithout("certificate for names", key, sni2.key, func() string {
		if got := r.presented("a.example.com"); got != "sni2" {
			return got
		}
		return ""
	})
}

func TestAuthoritiesReload(t *testing.T) { // CLI-39
	one, two := newIssuer(t, "one"), newIssuer(t, "two")
	c := basic()
	c.Authentication.ClientCAFile = file(t, one.pem)
	c.Authentication.FrontProxy = certificates.FrontProxy{CAFile: file(t, one.pem), UserHeaders: []string{"X-Remote-User"},
		GroupHeaders: []string{"X-Remote-Group"}}
	r := run(t, c, paths())
	header := http.Header{"X-Remote-User": {"u"}, "X-Remote-Group": {"system:masters"}}
	for _, kind := range []struct {
		name   string
		path   string
		groups string
		header http.Header
		before string // codes for certificates of one and of two
	}{
		{"client CA", c.Authentication.ClientCAFile, "system:masters", nil, "[200 401]"},
		{"front proxy CA", c.Authentication.FrontProxy.CAFile, "", header, "[200 403]"}, // two is the client CA by then
	} {
		codes := func() string {
			var all []int
			for _, i := range []*issuer{one, two} {
				client := r.client(i.issue(t, "x", member(kind.groups)).tls(t))
				all = append(all, r.do(client, "GET", "/metrics", kind.header.Clone(), "").StatusCode)
				client.CloseIdleConnections()
			}
			return fmt.Sprint(all)
		}
		is := func(want string) func() string {
			return func() string {
				if got := codes(); got != want {
					return fmt.Sprintf("%s: certificates of both get %s, want %s", kind.name, got, want)
				}
				return ""
			}
		}
		if got := is(kind.before)(); got != "" {
			t.Error(got)
		}
		kept := r.client(one.issue(t, "x", member(kind.groups)).tls(t))
		if g := r.do(kept, "GET", "/metrics", kind.header.Clone(), ""); g.StatusCode != 200 {
			t.Error(g.Status)
		}
		write(t, kind.path, two.pem)
		eventually(t, is("[401 200]"))
		if g := r.do(kept, "GET", "/metrics", kind.header.Clone(), ""); g.StatusCode == 200 {
			t.Errorf("%s: a connection from before the change is still trusted", kind.name)
		}
		r.staysWithout(kind.name, kind.path, two.pem, is("[401 200]"))
	}
}

func TestLookupAtTheStart(t *testing.T) { // CLI-36
	clients := newIssuer(t, "clients")
	api := newAPIServer(t)
	c := basic()
	c.Authentication.Cluster = api.client.CoreV1().ConfigMaps(certificates.LookupNamespace)
	api.failures = []int{403}
	if _, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), certificates.LookupName) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("a failure is not tolerated: %v", err)
	}

	api.set(func() { api.failures = []int{503} })
	waits, err := New(t.Context(), c)
	if err != nil {
		t.Fatalf("an API server that is away at the start is waited for: %v", err)
	}
	if err := waits.Close(); err != nil {
		t.Error(err)
	}

	c.Authentication.TolerateLookupFailure = true
	api.set(func() {
		api.failures = []int{403, 403}
		api.configMap = lookupMap(map[string]string{"client-ca-file": string(clients.pem)})
	})
	r := run(t, c, paths())
	root := r.client(clients.issue(t, "root", member("system:masters")).tls(t))
	eventually(t, func() string { // it goes on trying
		defer root.CloseIdleConnections()
		if g := r.do(root, "GET", "/metrics", nil, ""); g.StatusCode != 200 {
			return g.Status
		}
		return ""
	})
	if n := strings.Count(r.log.String(), "will be tried again"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}

	c.Authentication.ClientCAFile, c.Authentication.FrontProxy.CAFile = file(t, clients.pem), file(t, clients.pem)
	c.Authentication.TolerateLookupFailure = false
	api.set(func() { api.failures = []int{403} })
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatalf("nothing is missing, but it is looked up: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSelfSigned is about certificates that the server makes (CLI-33).
func TestSelfSigned(t *testing.T) {
	addressed := func(r *running) (*x509.Certificate, string) {
		conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		cert := conn.ConnectionState().PeerCertificates[0]
		return cert, fmt.Sprint(cert.DNSNames, cert.IPAddresses)
	}
	r := run(t, basic(), paths())
	cert, names := addressed(r)
	if names != "[localhost] [127.0.0.1]" {
		t.Error(names)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	for _, host := range []string{"localhost", "127.0.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}

	c := basic()
	c.Address = []byte{127, 0, 0, 2}
	c.TLS.CertDir, c.TLS.CertName = filepath.Join(t.TempDir(), "a", "b"), "kube-controller-manager"
	r = run(t, c, paths())
	first, names := addressed(r)
	if names != "[localhost] [127.0.0.1 127.0.0.2]" {
		t.Error(names)
	}
	info, err := os.Stat(filepath.Join(c.TLS.CertDir, "kube-controller-manager.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if second, _ := addressed(run(t, c, paths())); !second.Equal(first) {
		t.Error("the certificate in the directory is not used again")
	}
}

// TestAnExpiredCertificateIsServed: clients such as kubelets don't look, and the log tells.
func TestAnExpiredCertificateIsServed(t *testing.T) {
	c := basic()
	c.TLS.CertFile, c.TLS.KeyFile = pairFiles(t, newIssuer(t, "ca").issue(t, "old", expired))
	r := run(t, c, paths())
	if g := r.get("/healthz", nil); g.StatusCode != 200 {
		t.Error(g.Status)
	}
	if !strings.Contains(r.log.String(), "the serving certificate is not valid now") {
		t.Error("nobody is told")
	}
}
