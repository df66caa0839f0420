package differential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

// apiServer answers questions about clients, and notes them.
type apiServer struct {
	*httptest.Server
	client    kubernetes.Interface
	configMap map[string]string

	mu       sync.Mutex
	busy     int // how often it still says that it is
	accesses []authorizationv1.SubjectAccessReviewSpec
	tokens   []string
}

func newAPIServer(configMap map[string]string) *apiServer {
	a := &apiServer{configMap: configMap}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	a.client = kubernetes.NewForConfigOrDie(&rest.Config{Host: a.URL, QPS: -1, Transport: &http.Transport{DisableKeepAlives: true},
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	return a
}

func (a *apiServer) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy, a.accesses, a.tokens = 2, nil, nil
}

func (a *apiServer) asked() ([]authorizationv1.SubjectAccessReviewSpec, []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.accesses), slices.Clone(a.tokens)
}

func (a *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		var review authenticationv1.TokenReview
		must(json.NewDecoder(r.Body).Decode(&review))
		a.tokens = append(a.tokens, review.Spec.Token)
		var code int
		review.Status, code = tokenStatus(review.Spec.Token)
		a.answer(w, code, review)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		must(json.NewDecoder(r.Body).Decode(&review))
		a.accesses = append(a.accesses, review.Spec)
		var code int
		review.Status, code = accessStatus(review.Spec)
		a.answer(w, code, review)
	default:
		if a.configMap == nil {
			a.answer(w, http.StatusNotFound, nil)
			return
		}
		a.answer(w, http.StatusOK, corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: certificates.LookupNamespace, Name: certificates.LookupName}, Data: a.configMap})
	}
}

// answer answers with an object, or with an error of that code. Errors that pass have passed when they were answered often enough.
func (a *apiServer) answer(w http.ResponseWriter, code int, object any) {
	if code >= http.StatusInternalServerError {
		if a.busy--; a.busy < 0 {
			code = http.StatusCreated
		}
	}
	if code >= http.StatusForbidden {
		object = apierrors.NewGenericServerResponse(code, "post", corev1.Resource("reviews"), "", "", 0, false).Status()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	must(json.NewEncoder(w).Encode(object))
}

// tokenStatus returns what the API server says of a token, and the code with which it answers.
func tokenStatus(token string) (authenticationv1.TokenReviewStatus, int) {
	yes := func(name string, groups ...string) authenticationv1.TokenReviewStatus {
		return authenticationv1.TokenReviewStatus{Authenticated: true,
			User: authenticationv1.UserInfo{Username: name, UID: "u-" + name, Groups: groups}}
	}
	switch token {
	case "scraper":
		s := yes("prometheus", "monitoring", "monitoring")
		s.User.Extra = map[string]authenticationv1.ExtraValue{"k": {"v", "w"}, "none": {}}
		return s, http.StatusCreated
	case "master":
		return yes("root", "system:masters"), http.StatusCreated
	case "anonymous":
		return yes("system:anonymous", "system:unauthenticated"), http.StatusCreated
	case "unnamed":
		return yes(""), http.StatusCreated
	case "both":
		s := yes("prometheus")
		s.Error = "but there was an error"
		return s, http.StatusCreated
	case "nobody":
		return authenticationv1.TokenReviewStatus{}, http.StatusCreated
	case "error":
		return authenticationv1.TokenReviewStatus{}, http.StatusForbidden
	case "busy":
		return yes("prometheus"), http.StatusInternalServerError
	}
	return authenticationv1.TokenReviewStatus{Error: "[invalid bearer token]"}, http.StatusCreated
}

// accessStatus returns what the API server says of an access, and the code with which it answers.
func accessStatus(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, int) {
	s := authorizationv1.SubjectAccessReviewStatus{Reason: "as the path says"}
	switch spec.NonResourceAttributes.Path {
	case "/sar/allow":
		s.Allowed = true
	case "/sar/deny":
		s.Denied = true
	case "/sar/both":
		s.Allowed, s.Denied = true, true
	case "/sar/allow-error":
		s.Allowed, s.EvaluationError = true, "a role is missing"
	case "/sar/none-error":
		s.EvaluationError = "a role is missing"
	case "/sar/deny-anonymous":
		s.Allowed = spec.User != "system:anonymous"
	case "/sar/error":
		return s, http.StatusForbidden
	case "/sar/busy":
		s.Allowed = true
		return s, http.StatusInternalServerError
	case "/sar/unavailable":
		s.Allowed = true
		return s, http.StatusServiceUnavailable
	}
	return s, http.StatusCreated
}

// issued is a certificate with its key.
type issued struct {
	cert, key []byte // PEM
	parsed    *x509.Certificate
	private   *ecdsa.PrivateKey
}

func (i *issued) tls() *tls.Certificate {
	c, err := tls.X509KeyPair(i.cert, i.key)
	must(err)
	return &c
}

func (i *issued) tlsConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{*i.tls()}, ClientAuth: tls.RequestClientCert}
}

// issue has an issuer, or if there is none the certificate itself, sign a certificate for clients that edit may change before.
func issue(issuer *issued, name string, edit func(*x509.Certificate)) *issued {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	i := &issued{private: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if edit != nil {
		edit(template)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.parsed, issuer.private
	} else {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(err)
	i.parsed, err = x509.ParseCertificate(der)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	i.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	i.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return i
}

var (
	clients     = sync.OnceValue(func() *issued { return issue(nil, "clients", nil) })
	proxies     = sync.OnceValue(func() *issued { return issue(nil, "proxies", nil) })
	servingPair = sync.OnceValue(func() *issued { return issue(nil, "server", nil) })
)

// bundle returns authorities by name.
func bundle(name string) []byte {
	switch name {
	case "clients":
		return clients().cert
	case "proxies":
		return proxies().cert
	case "clients and proxies":
		return slices.Concat(clients().cert, proxies().cert)
	}
	return nil
}

// clientCertificates are those that clients may have, by name.
var clientCertificates = sync.OnceValue(func() map[string]*tls.Certificate {
	member := func(groups ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.Organization = groups }
	}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	all := map[string]*tls.Certificate{}
	for name, i := range map[string]*issued{
		"alice":          issue(clients(), "alice", nil),
		"bob":            issue(clients(), "bob", member("dev", "ops", "dev")),
		"master":         issue(clients(), "root", member("system:masters")),
		"unnamed":        issue(clients(), "", member("dev")),
		"anonymous":      issue(clients(), "system:anonymous", nil),
		"expired":        issue(clients(), "alice", expired),
		"server":         issue(clients(), "alice", server),
		"stranger":       issue(nil, "alice", member("system:masters")),
		"proxy":          issue(proxies(), "proxy", nil),
		"other proxy":    issue(proxies(), "other proxy", member("dev")),
		"unnamed proxy":  issue(proxies(), "", nil),
		"blank proxy":    issue(proxies(), " ", nil),
		"padded proxy":   issue(proxies(), " proxy ", nil),
		"expired proxy":  issue(proxies(), "proxy", expired),
		"proxy's server": issue(proxies(), "proxy", server),
	} {
		all[name] = i.tls()
	}
	return all
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}
