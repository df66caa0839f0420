package serving

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/standalone-kcm/controller-manager/internal/serving/access"
	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer signs certificates.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// signed is a certificate with its key.
type signed struct{ cert, key []byte }

func (s signed) tls(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(s.cert, s.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newIssuer(t testing.TB, name string) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &i.key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	if i.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	i.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return i
}

// issue signs a certificate, for clients and servers, that edit may change before.
func (i *issuer) issue(t testing.TB, name string, edit func(*x509.Certificate)) signed {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if edit != nil {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, &key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

func member(groups ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.Subject.Organization = groups }
}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

func notForClients(c *x509.Certificate) {
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
}

func forNames(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

// write replaces a file at once, as those who renew certificates do.
func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func file(t testing.TB, content []byte) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "file"), content)
}

// apiServer answers questions about clients, and counts them.
type apiServer struct {
	mu        sync.Mutex
	users     map[string]authenticationv1.UserInfo // by token
	allowed   map[string]bool                      // user, verb and path, separated by spaces
	configMap *corev1.ConfigMap
	failures  []int // status codes of the next answers
	hang      chan struct{}
	tokens    int // TokenReviews
	accesses  []authorizationv1.SubjectAccessReviewSpec
	client    kubernetes.Interface
}

func newAPIServer(t testing.TB) *apiServer {
	t.Helper()
	a := &apiServer{
		users: map[string]authenticationv1.UserInfo{
			"scraper": {Username: "prometheus", UID: "u1", Groups: []string{"monitoring"},
				Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
			"guest": {Username: "guest"},
		},
		allowed: map[string]bool{"prometheus get /metrics": true, "alice get /metrics": true},
	}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	var err error
	if a.client, err = kubernetes.NewForConfig(&rest.Config{
		Host: s.URL, QPS: -1, Transport: &http.Transport{DisableKeepAlives: true},
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.hang != nil {
		select {
		case <-a.hang:
		case <-r.Context().Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.failures) > 0 {
		code := a.failures[0]
		a.failures = a.failures[1:]
		answer(w, code, apierrors.NewGenericServerResponse(code, r.Method, schema.GroupResource{}, "", "secret detail", 0, true).Status())
		return
	}
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		a.tokens++
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.User, review.Status.Authenticated = a.users[review.Spec.Token], a.users[review.Spec.Token].Username != ""
		if !review.Status.Authenticated {
			review.Status.Error = "[invalid bearer token]"
		}
		answer(w, http.StatusCreated, review)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a.accesses = append(a.accesses, review.Spec)
		attributes := review.Spec.NonResourceAttributes
		review.Status.Allowed = a.allowed[review.Spec.User+" "+attributes.Verb+" "+attributes.Path]
		if review.Spec.User == "guest" {
			review.Status.Reason = "guests may not"
		}
		answer(w, http.StatusCreated, review)
	default:
		if a.configMap == nil {
			answer(w, http.StatusNotFound, apierrors.NewNotFound(corev1.Resource("configmaps"), certificates.LookupName).Status())
			return
		}
		answer(w, http.StatusOK, a.configMap)
	}
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// asked returns how many questions there were.
func (a *apiServer) asked() (tokens, accesses int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens, len(a.accesses)
}

func (a *apiServer) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// ask has the server ask a about clients.
func (a *apiServer) ask(c *Config) {
	c.Authentication.Tokens = a.client.AuthenticationV1().TokenReviews()
	c.Authentication.TokenTTL = 10 * time.Second
	c.Authorization.Reviews = a.client.AuthorizationV1().SubjectAccessReviews()
	c.Authorization.AllowedTTL, c.Authorization.DeniedTTL = 10*time.Second, 10*time.Second
}

func lookupMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: certificates.LookupNamespace, Name: certificates.LookupName}, Data: data,
	}
}

// logBuffer keeps what is logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// running is a server under test.
type running struct {
	*Server
	t    testing.TB
	log  *logBuffer
	stop func() error // ends the server, and returns what Run has returned
}

// basic is a configuration that listens on a free port and has the default paths for everybody.
func basic() Config {
	return Config{
		Address:       net.IPv4(127, 0, 0, 1),
		Authorization: access.Authorization{AlwaysAllow: []string{"/healthz", "/readyz", "/livez"}},
		Probes:        []string{"/healthz"},
		Limits:        Limits{Reload: 10 * time.Millisecond},
	}
}

func text(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
}

// paths are what servers under test serve.
func paths() map[string]http.Handler {
	return map[string]http.Handler{"/healthz": text("ok"), "/livez": text("ok"), "/livez/": text("ok"), "/metrics": text("a 1\n")}
}

func run(t testing.TB, c Config, handlers map[string]http.Handler) *running {
	t.Helper()
	r := &running{t: t, log: &logBuffer{}}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(r.log), textlogger.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	var err error
	if r.Server, err = New(ctx, c); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, handlers) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// client returns a client with the certificates, over HTTP/2, that keeps no connections.
func (r *running) client(certs ...tls.Certificate) *http.Client {
	config := &tls.Config{InsecureSkipVerify: true}
	if len(certs) > 0 { // also if the server does not ask for one like it
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// got is an answer with its body read.
type got struct {
	*http.Response
	body string
}

func (r *running) do(c *http.Client, method, path string, header http.Header, body string) got {
	r.t.Helper()
	req, err := http.NewRequest(method, "https://"+r.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := c.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return got{resp, string(all)}
}

func (r *running) get(path string, header http.Header) got {
	r.t.Helper()
	c := r.client()
	defer c.CloseIdleConnections()
	return r.do(c, http.MethodGet, path, header, "")
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// eventually waits until there is nothing to complain about.
func eventually(t testing.TB, complaint func() string) {
	t.Helper()
	last := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if last = complaint(); last == "" {
			return
		}
	}
	t.Fatal(last)
}
