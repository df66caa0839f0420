package certificates

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/files"
	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
)

// newPair returns a certificate and its key. The certificate is an authority, too.
func newPair(t *testing.T) (cert, key []byte) {
	t.Helper()
	cert, key, err := selfSign(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// TestLookup is about what the cluster knows of clients (CLI-36).
func TestLookup(t *testing.T) {
	clients, _ := newPair(t)
	proxies, _ := newPair(t)
	others, _ := newPair(t)
	full := map[string]string{
		"client-ca-file": string(clients), "requestheader-client-ca-file": string(proxies),
		"requestheader-allowed-names": `["proxy"]`, "requestheader-username-headers": `["X-U"]`, "requestheader-group-headers": `["X-G"]`,
		"requestheader-uid-headers": `["X-I"]`, "requestheader-extra-headers-prefix": `["X-E-"]`,
	}
	changed := map[string]string{}
	for key, value := range full {
		changed[key] = value
	}
	changed["client-ca-file"], changed["requestheader-username-headers"] = string(others), `["X-V"]`
	with := func(key, value string) map[string]string {
		m := map[string]string{}
		for k, v := range full {
			m[k] = v
		}
		m[key] = value
		return m
	}

	var configMap *corev1.ConfigMap
	var failure error
	client := fake.NewClientset()
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if configMap == nil && failure == nil {
			return true, nil, apierrors.NewNotFound(corev1.Resource("configmaps"), LookupName)
		}
		return true, configMap, failure
	})
	set := &Set{}
	source := set.lookupSource(Clients{Cluster: client.CoreV1().ConfigMaps(LookupNamespace)}, time.Second, time.Second)
	for _, step := range []struct {
		name    string
		data    map[string]string // nil: no ConfigMap
		changed bool
		err     string
		ca      []byte
		headers string
	}{
		{"none yet", nil, false, "", nil, ""},
		{"an empty one", map[string]string{}, false, "", nil, ""},
		{"all of it", full, true, "", clients, "X-U"},
		{"the same", full, false, "", clients, "X-U"},
		{"broken authorities", with("client-ca-file", "x"), false,
			"certificate authorities of ConfigMap kube-system/extension-apiserver-authentication: ", clients, "X-U"},
		{"broken authorities of proxies", with("requestheader-client-ca-file", "x"), false, "certificate authorities", clients, "X-U"},
		{"broken names", with("requestheader-allowed-names", "proxy"), false, "requestheader-allowed-names in ConfigMap", clients, "X-U"},
		{"it is gone", nil, false, "", clients, "X-U"},
		{"another", changed, true, "", others, "X-V"},
	} {
		configMap = nil
		if step.data != nil {
			configMap = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: LookupNamespace, Name: LookupName}, Data: step.data}
		}
		fresh, err := source.load(t.Context())
		if fresh != step.changed || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: %v, %v", step.name, fresh, err)
		}
		if step.ca == nil != (set.clientCA == nil) || step.ca != nil && !set.clientCA.isStill(step.ca) {
			t.Errorf("%s: another client CA", step.name)
		}
		if step.headers != "" && set.proxy.UserHeaders[0] != step.headers {
			t.Errorf("%s: headers %v", step.name, set.proxy.UserHeaders)
		}
	}
	if p := set.proxy; fmt.Sprint(p.Names, p.GroupHeaders, p.UIDHeaders, p.ExtraPrefixes) != "[proxy] [X-G] [X-I] [X-E-]" {
		t.Errorf("%+v", p.FrontProxy)
	}
	failure = apierrors.NewForbidden(corev1.Resource("configmaps"), LookupName, nil)
	if _, err := source.load(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), "look up authentication in ConfigMap kube-system/extension-apiserver-authentication: ") {
		t.Errorf("it may not be read: %v", err)
	}
}

// TestBadFiles checks that nothing is loaded if one of them is, and that the error says in a line what is wrong.
func TestBadFiles(t *testing.T) {
	oneCert, oneKey := newPair(t)
	_, twoKey := newPair(t)
	dir := t.TempDir()
	at := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	crt, key, otherKey := at("crt", oneCert), at("key", oneKey), at("other", twoKey)
	garbage, empty := at("garbage", []byte("x")), at("empty", nil)
	huge := at("huge", make([]byte, files.Longest+1))
	half := filepath.Join(dir, "half")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	at("half/x.crt", oneCert)
	for _, test := range []struct {
		name string
		edit func(*Server, *Clients)
		want string
	}{
		{"CLI-32 no certificate", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = "/nope", key },
			"open /nope: no such file or directory"},
		{"CLI-32 no key", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = crt, "/nope" }, "open /nope: no such file or directory"},
		{"CLI-32 a directory", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = dir, key }, "read " + dir + ": is a directory"},
		{"CLI-32 no PEM", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = garbage, key },
			"certificate " + garbage + " with key " + key + ": tls: failed to find any PEM data in certificate input"},
		{"CLI-32 empty", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = crt, empty },
			"certificate " + crt + " with key " + empty + ": tls: failed to find any PEM data in key input"},
		{"CLI-32 too long", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = huge, key }, huge + " is longer than 1048576 bytes"},
		{"CLI-32 endless", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = "/dev/zero", key },
			"/dev/zero is longer than 1048576 bytes"},
		{"CLI-32 another key", func(s *Server, c *Clients) { s.CertFile, s.KeyFile = crt, otherKey },
			"certificate " + crt + " with key " + otherKey + ": tls: private key does not match public key"},
		{"CLI-34 no certificate for names", func(s *Server, c *Clients) { s.Named = []Named{{CertFile: "/nope", KeyFile: key}} },
			"open /nope: no such file or directory"},
		{"CLI-39 no client CA", func(s *Server, c *Clients) { c.ClientCAFile = "/nope" }, "open /nope: no such file or directory"},
		{"CLI-39 client CA without certificates", func(s *Server, c *Clients) { c.ClientCAFile = garbage },
			"certificate authorities of " + garbage + ": data does not contain any valid RSA or ECDSA certificates"},
		{"CLI-39 no front proxy CA", func(s *Server, c *Clients) { c.FrontProxy.CAFile = "/nope" },
			"open /nope: no such file or directory"},
		{"CLI-33 half a pair", func(s *Server, c *Clients) { s.CertDir, s.CertName = half, "x" },
			"certificate in " + half + ": stat " + half + "/x.key: no such file or directory"},
		{"CLI-33 no directory", func(s *Server, c *Clients) { s.CertDir, s.CertName = crt, "x" },
			"certificate in " + crt + ": stat " + crt + "/x.crt: not a directory"},
		{"CLI-33 a directory that cannot be made", func(s *Server, c *Clients) { s.CertDir, s.CertName = "/proc/x", "x" },
			"certificate in /proc/x: mkdir /proc/x: no such file or directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var server Server
			var clients Clients
			test.edit(&server, &clients)
			err := New(server, clients, Options{Problems: &reply.Problems{}}).Load(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			if line, _, _ := strings.Cut(err.Error(), "\n"); line != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
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
