package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// server is a manager that serves, and whom it serves.
type server struct {
	*testing.T
	*cluster.Cluster
	manager *cluster.Manager
	address string
}

// onlyTokens is for managers that do no harm beside others.
const onlyTokens = "--controllers=tokencleaner"

// startServing starts a manager that asks the API server about its clients.
func startServing(t *testing.T, args ...string) *server {
	t.Helper()
	c := cluster.Start(t)
	port := strconv.Itoa(freePort(t))
	s := &server{T: t, Cluster: c, address: net.JoinHostPort("127.0.0.1", port)}
	s.manager = c.Manager(t, append([]string{onlyTokens, "--bind-address=127.0.0.1", "--secure-port=" + port,
		"--authentication-kubeconfig=" + c.ManagerKubeconfig, "--authorization-kubeconfig=" + c.ManagerKubeconfig,
		"--authentication-token-webhook-cache-ttl=1s"}, args...)...)
	s.waitFor("/healthz", "", http.StatusOK)
	return s
}

// try asks the manager for a path.
func (s *server) try(path string, header http.Header, certs ...tls.Certificate) (code int, body string, err error) {
	settings := &tls.Config{InsecureSkipVerify: true}
	if len(certs) > 0 {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
	}
	transport := &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header = header
	response, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func bearer(token string) http.Header {
	if token == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + token}}
}

// waitFor waits until the manager answers with a code.
func (s *server) waitFor(path, token string, code int) {
	s.Helper()
	cluster.Eventually(s.T, patience, fmt.Sprintf("the manager answers %s with %d", path, code), func() error {
		got, body, err := s.try(path, bearer(token))
		if err == nil && got != code {
			err = fmt.Errorf("%d %s", got, body)
		}
		return err
	})
}

// account makes a service account that may get the paths, and a token of it.
func (s *server) account(namespace, name string, mayGet ...string) (token string) {
	s.Helper()
	accounts := s.Client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if len(mayGet) > 0 {
		s.allow(namespace+"-"+name, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}, mayGet...)
	}
	request, err := accounts.CreateToken(s.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return request.Status.Token
}

// allow lets somebody get paths, until the test's end.
func (s *server) allow(name string, who rbacv1.Subject, paths ...string) {
	s.Helper()
	roles := s.Client.RbacV1()
	_, err := roles.ClusterRoles().Create(s.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: paths}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = roles.ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	_, err = roles.ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{who},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = roles.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// authority is a certificate authority.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	var der []byte
	der, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writePEM(t, filepath.Join(t.TempDir(), "ca.crt"), "CERTIFICATE", der)
	return a
}

func (a *authority) sign(template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Minute)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, parentKey := a.cert, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey); err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue makes a certificate for clients and servers.
func (a *authority) issue(name string, until time.Time) tls.Certificate {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes a certificate and its key.
func (a *authority) files(cert tls.Certificate, dir string) (certFile, keyFile string) {
	a.t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return writePEM(a.t, filepath.Join(dir, "tls.crt"), "CERTIFICATE", cert.Certificate[0]),
		writePEM(a.t, filepath.Join(dir, "tls.key"), "PRIVATE KEY", key)
}

func writePEM(t *testing.T, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServing asks a manager as all kinds of clients do.
func TestServing(t *testing.T) {
	t.Parallel()
	clients, proxies, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	s := startServing(t, "--client-ca-file="+clients.file, "--requestheader-client-ca-file="+proxies.file,
		"--requestheader-allowed-names=proxy")
	namespace := s.Namespace(t)
	scraper, guest, gone := s.account(namespace, "scraper", "/metrics"), s.account(namespace, "guest"),
		s.account(namespace, "gone", "/metrics")
	s.allow(namespace+"-alice", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}, "/metrics")
	s.waitFor("/metrics", scraper, http.StatusOK) // the API server knows the bindings
	s.waitFor("/metrics", gone, http.StatusOK)
	if err := s.Client.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitFor("/metrics", gone, http.StatusUnauthorized)

	parts := strings.Split(scraper, ".")
	forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
	alice := http.Header{"X-Remote-User": {"alice"}}
	for _, test := range []struct {
		name   string
		path   string
		header http.Header
		cert   *tls.Certificate
		code   int
	}{
		{"MH-6 a probe", "/healthz", nil, nil, 200},
		{"MH-6 below it", "/healthz/leaderElection", bearer(scraper), nil, 403},
		{"MH-7 livez", "/livez", nil, nil, 200},
		{"MH-3 nobody", "/metrics", nil, nil, 403},
		{"MH-5 a scraper", "/metrics", bearer(scraper), nil, 200},
		{"MH-3 a scraper wants more", "/configz", bearer(scraper), nil, 403},
		{"MH-3 a guest", "/metrics", bearer(guest), nil, 403},
		{"MH-2 a forged token", "/metrics", bearer(forged), nil, 401},
		{"MH-2 no such token", "/metrics", bearer("x"), nil, 401},
		{"MH-2 a token of an account that is gone", "/metrics", bearer(gone), nil, 401},
		{"CLI-39 a certificate", "/metrics", nil, ptrTo(clients.issue("alice", time.Time{})), 200},
		{"CLI-39 another's certificate", "/metrics", nil, ptrTo(clients.issue("bob", time.Time{})), 403},
		{"CLI-39 an expired certificate", "/metrics", nil, ptrTo(clients.issue("alice", time.Now().Add(-time.Second))), 401},
		{"CLI-39 a stranger's certificate", "/metrics", nil, ptrTo(strangers.issue("alice", time.Time{})), 401},
		{"CLI-39 a front proxy", "/metrics", alice, ptrTo(proxies.issue("proxy", time.Time{})), 200},
		{"CLI-39 who is no front proxy", "/metrics", alice, nil, 403},
		{"CLI-39 a client as a front proxy", "/metrics", alice, ptrTo(clients.issue("bob", time.Time{})), 403},
		{"CLI-39 a front proxy of another name", "/metrics", alice, ptrTo(proxies.issue("other", time.Time{})), 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			var certs []tls.Certificate
			if test.cert != nil {
				certs = append(certs, *test.cert)
			}
			code, body, err := s.try(test.path, test.header.Clone(), certs...)
			if err != nil || code != test.code {
				t.Errorf("%v, %d %.300s", err, code, body)
			}
		})
	}
	t.Run("kubectl", func(t *testing.T) { s.askByKubectl(t, scraper, guest, forged) })
	t.Run("curl", func(t *testing.T) { s.askByCurl(t, scraper, guest, clients) })
}

func ptrTo(c tls.Certificate) *tls.Certificate { return &c }

func (s *server) askByKubectl(t *testing.T, scraper, guest, forged string) {
	get := func(token, path string) (string, error) {
		return s.TryKubectl(t, "--kubeconfig=/dev/null", "--server=https://"+s.address, "--insecure-skip-tls-verify", "--token="+token,
			"get", "--raw", path)
	}
	if out, err := get(scraper, "/metrics"); err != nil || !strings.Contains(out, "\nprocess_start_time_seconds ") {
		t.Errorf("MH-8: %v, %.300s", err, out)
	}
	if out, err := get(guest, "/metrics"); err == nil || !strings.Contains(err.Error(), `cannot get path "/metrics"`) {
		t.Errorf("MH-3: %v, %.300s", err, out)
	}
	if out, err := get(forged, "/metrics"); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("MH-2: %v, %.300s", err, out)
	}
}

func (s *server) askByCurl(t *testing.T, scraper, guest string, clients *authority) {
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	cert, key := clients.files(clients.issue("alice", time.Time{}), t.TempDir())
	for _, test := range []struct {
		name string
		args []string
		code string
	}{
		{"nobody", nil, "403"},
		{"a token", []string{"--header", "Authorization: Bearer " + scraper}, "200"},
		{"a token that may not", []string{"--header", "Authorization: Bearer " + guest}, "403"},
		{"a certificate", []string{"--cert", cert, "--key", key}, "200"},
		{"a certificate over HTTP/1.1", []string{"--http1.1", "--cert", cert, "--key", key}, "200"},
	} {
		args := append([]string{"--silent", "--insecure", "--max-time", "20", "--output", os.DevNull, "--write-out", "%{http_code}"},
			test.args...)
		out, err := exec.CommandContext(t.Context(), path, append(args, "https://"+s.address+"/metrics")...).CombinedOutput()
		if err != nil || string(out) != test.code {
			t.Errorf("%s: %v, %s", test.name, err, out)
		}
	}
}

// TestServingByTheCluster is about a manager that is told nothing of its clients: the cluster knows (CLI-36).
func TestServingByTheCluster(t *testing.T) {
	t.Parallel()
	s := startServing(t)
	settings, err := rest.TLSConfigFor(s.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := settings.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/metrics", "/metrics/slis", "/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/explain",
		"/debug/snapshot/", "/debug/flags/v"} {
		want := http.StatusOK
		if path == "/debug/flags/v" {
			want = http.StatusNotAcceptable // MH-13: this is no PUT
		}
		if code, body, err := s.try(path, nil, *admin); err != nil || code != want {
			t.Errorf("CLI-36 %s: %v, %d %.300s", path, err, code, body)
		}
	}
	if code, body, err := s.try("/", nil, *admin); err != nil || code != 404 || body != "404 page not found\n" {
		t.Errorf("MH-4: %v, %d %s", err, code, body)
	}
}

// TestAStandbyServes: MH-5, MH-18, CLI-57.
func TestAStandbyServes(t *testing.T) {
	t.Parallel()
	flags := append(electing(t), onlyTokens, "--profiling=false", "--feature-gates=ComponentFlagz=false,ComponentStatusz=false")
	leader := startServing(t, flags...)
	leader.manager.WaitForLog(t, patience, "Successfully acquired lease")
	standby := startServing(t, flags...)
	standby.manager.WaitForLog(t, patience, "Attempting to acquire leader lease")
	root := standby.account(standby.Namespace(t), "root", "*")
	for _, s := range []*server{leader, standby} {
		s.waitFor("/metrics", root, http.StatusOK)
		for _, path := range []string{"/flagz", "/statusz", "/debug/pprof/", "/debug/flags/v"} {
			if code, body, err := s.try(path, bearer(root)); err != nil || code != 404 {
				t.Errorf("MH-11 to MH-13, CLI-73, %s is off: %v, %d %.300s", path, err, code, body)
			}
		}
	}
	if code, body, err := standby.try("/healthz?verbose", nil); err != nil || code != 200 ||
		!strings.Contains(body, "[+]leaderElection ok\n") {
		t.Errorf("MH-18: %v, %d %s", err, code, body)
	}
	if code := leader.manager.Stop(t); code != 0 {
		t.Errorf("CLI-63: exit code %d", code)
	}
	if _, _, err := leader.try("/healthz", nil); err == nil {
		t.Error("CLI-63: somebody still listens")
	}
}

// TestServingCertificateIsReloaded: CLI-32.
func TestServingCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.files(a.issue("before", time.Time{}), dir)
	s := startServing(t, "--tls-cert-file="+cert, "--tls-private-key-file="+key)
	presented := func() error {
		conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		if name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "after" {
			return fmt.Errorf("it is %q", name)
		}
		return nil
	}
	if err := presented(); err == nil || err.Error() != `it is "before"` {
		t.Error(err)
	}
	a.files(a.issue("after", time.Time{}), dir)
	cluster.Eventually(t, patience, "the new certificate is used", presented)
}
