package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/files"
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
	c.TLS.Named = []NamedCertificate{{CertFile: cert, KeyFile: key}}
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
	c.Authentication.FrontProxy = FrontProxy{CAFile: file(t, one.pem), UserHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}}
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

// TestLookup is about what the cluster knows of clients (CLI-36).
func TestLookup(t *testing.T) {
	clients, proxies, others := newIssuer(t, "clients"), newIssuer(t, "proxies"), newIssuer(t, "others")
	full := map[string]string{
		"client-ca-file": string(clients.pem), "requestheader-client-ca-file": string(proxies.pem),
		"requestheader-allowed-names": `["proxy"]`, "requestheader-username-headers": `["X-U"]`, "requestheader-group-headers": `["X-G"]`,
		"requestheader-uid-headers": `["X-I"]`, "requestheader-extra-headers-prefix": `["X-E-"]`,
	}
	changed := map[string]string{}
	for key, value := range full {
		changed[key] = value
	}
	changed["client-ca-file"], changed["requestheader-username-headers"] = string(others.pem), `["X-V"]`
	with := func(key, value string) map[string]string {
		m := map[string]string{}
		for k, v := range full {
			m[k] = v
		}
		m[key] = value
		return m
	}

	api := newAPIServer(t)
	m := &materials{}
	source := m.lookupSource(Authentication{Cluster: api.client.CoreV1().ConfigMaps(LookupNamespace)}, time.Second, time.Second)
	for _, step := range []struct {
		name    string
		data    map[string]string // nil: no ConfigMap
		changed bool
		err     string
		ca      *issuer
		headers string
	}{
		{"none yet", nil, false, "", nil, ""},
		{"an empty one", map[string]string{}, false, "", nil, ""},
		{"all of it", full, true, "", clients, "X-U"},
		{"the same", full, false, "", clients, "X-U"},
		{"broken authorities", with("client-ca-file", "x"), false, "certificate authorities of ConfigMap kube-system/extension-apiserver-authentication: ", clients, "X-U"},
		{"broken authorities of proxies", with("requestheader-client-ca-file", "x"), false, "certificate authorities", clients, "X-U"},
		{"broken names", with("requestheader-allowed-names", "proxy"), false, "requestheader-allowed-names in ConfigMap", clients, "X-U"},
		{"it is gone", nil, false, "", clients, "X-U"},
		{"another", changed, true, "", others, "X-V"},
	} {
		api.set(func() { api.configMap = nil })
		if step.data != nil {
			api.set(func() { api.configMap = lookupMap(step.data) })
		}
		fresh, err := source.load(t.Context())
		if fresh != step.changed || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: %v, %v", step.name, fresh, err)
		}
		if step.ca == nil != (m.clientCA == nil) || step.ca != nil && !m.clientCA.isStill(step.ca.pem) {
			t.Errorf("%s: another client CA", step.name)
		}
		if step.headers != "" && m.proxy.UserHeaders[0] != step.headers {
			t.Errorf("%s: headers %v", step.name, m.proxy.UserHeaders)
		}
	}
	if p := m.proxy; fmt.Sprint(p.Names, p.GroupHeaders, p.UIDHeaders, p.ExtraPrefixes) != "[proxy] [X-G] [X-I] [X-E-]" {
		t.Errorf("%+v", p.FrontProxy)
	}
	api.set(func() { api.failures = []int{403} })
	if _, err := source.load(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "look up authentication in ConfigMap kube-system/extension-apiserver-authentication: ") {
		t.Errorf("it may not be read: %v", err)
	}
}

func TestLookupAtTheStart(t *testing.T) { // CLI-36
	clients := newIssuer(t, "clients")
	api := newAPIServer(t)
	c := basic()
	c.Authentication.Cluster = api.client.CoreV1().ConfigMaps(LookupNamespace)
	api.failures = []int{403}
	if _, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), LookupName) || strings.Contains(err.Error(), "\n") {
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

// TestBadFiles checks that the server does not start with them, and says in a line what is wrong.
func TestBadFiles(t *testing.T) {
	ca := newIssuer(t, "ca")
	one, two := ca.issue(t, "one", nil), ca.issue(t, "two", nil)
	dir := t.TempDir()
	at := func(name string, content []byte) string { return write(t, filepath.Join(dir, name), content) }
	crt, key, otherKey := at("crt", one.cert), at("key", one.key), at("other", two.key)
	garbage, empty := at("garbage", []byte("x")), at("empty", nil)
	huge := at("huge", make([]byte, files.Longest+1))
	half := filepath.Join(dir, "half")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(half, "x.crt"), one.cert)
	for _, test := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"CLI-32 no certificate", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "/nope", key }, "open /nope: no such file or directory"},
		{"CLI-32 no key", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = crt, "/nope" }, "open /nope: no such file or directory"},
		{"CLI-32 a directory", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = dir, key }, "read " + dir + ": is a directory"},
		{"CLI-32 no PEM", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = garbage, key },
			"certificate " + garbage + " with key " + key + ": tls: failed to find any PEM data in certificate input"},
		{"CLI-32 empty", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = crt, empty },
			"certificate " + crt + " with key " + empty + ": tls: failed to find any PEM data in key input"},
		{"CLI-32 too long", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = huge, key }, huge + " is longer than 1048576 bytes"},
		{"CLI-32 endless", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "/dev/zero", key }, "/dev/zero is longer than 1048576 bytes"},
		{"CLI-32 another key", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = crt, otherKey },
			"certificate " + crt + " with key " + otherKey + ": tls: private key does not match public key"},
		{"CLI-34 no certificate for names", func(c *Config) { c.TLS.Named = []NamedCertificate{{CertFile: "/nope", KeyFile: key}} },
			"open /nope: no such file or directory"},
		{"CLI-39 no client CA", func(c *Config) { c.Authentication.ClientCAFile = "/nope" }, "open /nope: no such file or directory"},
		{"CLI-39 client CA without certificates", func(c *Config) { c.Authentication.ClientCAFile = garbage },
			"certificate authorities of " + garbage + ": data does not contain any valid RSA or ECDSA certificates"},
		{"CLI-39 no front proxy CA", func(c *Config) { c.Authentication.FrontProxy.CAFile = "/nope" }, "open /nope: no such file or directory"},
		{"CLI-33 half a pair", func(c *Config) { c.TLS.CertDir, c.TLS.CertName = half, "x" },
			"certificate in " + half + ": stat " + half + "/x.key: no such file or directory"},
		{"CLI-33 no directory", func(c *Config) { c.TLS.CertDir, c.TLS.CertName = crt, "x" },
			"certificate in " + crt + ": stat " + crt + "/x.crt: not a directory"},
		{"CLI-33 a directory that cannot be made", func(c *Config) { c.TLS.CertDir, c.TLS.CertName = "/proc/x", "x" },
			"certificate in /proc/x: mkdir /proc/x: no such file or directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := basic()
			test.edit(&c)
			s, err := New(t.Context(), c)
			if err == nil {
				_ = s.Close()
				t.Fatal("no error")
			}
			if line, _, _ := strings.Cut(err.Error(), "\n"); line != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
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

// TestSelfSignedIsRenewed: a process that runs for years has a valid certificate.
func TestSelfSignedIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cert *tls.Certificate
		source := inMemory(nil, time.Second, &cert)
		made := 0
		for range 24 {
			changed, err := source.load(klog.NewContext(context.Background(), klog.Logger{}))
			if err != nil {
				t.Fatal(err)
			}
			if changed {
				made++
			}
			if left := time.Until(cert.Leaf.NotAfter); left < 90*24*time.Hour {
				t.Errorf("only %v left", left)
			}
			time.Sleep(30 * 24 * time.Hour)
		}
		if made != 4 {
			t.Errorf("%d certificates in two years", made)
		}
	})
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
