package identity

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

const component = "kube-controller-manager"

func TestUserAgentCI1(t *testing.T) {
	b := NewBuilder(&rest.Config{Host: "http://api"}, Options{Component: component})
	for _, name := range []string{Root, Informers, LeaderElection} {
		got := b.Config(name).UserAgent
		want := regexp.MustCompile(`^kube-controller-manager/v\d+\.\d+\.\d+ \(\w+/\w+\) kubernetes/[0-9a-z]{7}/` + name + `$`)
		if !want.MatchString(got) {
			t.Errorf("CI-1, CI-2: user agent of %s is %q", name, got)
		}
	}
	for in, want := range map[string]string{
		"v1.37.2": "v1.37.2", "v1.37.2-rc.0.12+abcdef": "v1.37.2", "v1.37.2+k3s1": "v1.37.2", "": "unknown",
	} {
		if got := release(in); got != want {
			t.Errorf("release(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"0123456789abcdef": "0123456", "abc": "abc", "": "unknown", "$Format:%H$": "unknown",
	} {
		if got := commit(in); got != want {
			t.Errorf("commit(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestUserAgentOfControllersCI2(t *testing.T) {
	for _, c := range []struct {
		accounts bool
		suffix   string
	}{
		{false, "/replicaset-controller"},
		{true, "/system:serviceaccount:kube-system:replicaset-controller"},
	} {
		b := NewBuilder(&rest.Config{Host: "http://api"}, Options{Component: component, ServiceAccounts: c.accounts})
		got, err := b.Controller("replicaset-controller")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(got.UserAgent, c.suffix) {
			t.Errorf("CI-2: service accounts %v: user agent %q, want suffix %q", c.accounts, got.UserAgent, c.suffix)
		}
	}
}

// A controller with the root identity has its own name, the credentials of the process, and no writes without the lease (TOK-1).
func TestRootController(t *testing.T) {
	b := NewBuilder(&rest.Config{Host: "http://api", BearerToken: "root"}, Options{Component: component, ServiceAccounts: true})
	got := b.RootController("tokens-controller")
	if !strings.HasSuffix(got.UserAgent, "/tokens-controller") || got.BearerToken != "root" {
		t.Errorf("user agent %q, token %q", got.UserAgent, got.BearerToken)
	}
	bubble(t, func(t *testing.T) {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, &corev1.Secret{}) })
		b := NewBuilder(a.config, Options{Component: component, ServiceAccounts: true, MayWrite: func(string) bool { return false }})
		_, err := clientset(t, b.RootController("tokens-controller")).CoreV1().Secrets("shop").Update(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.UpdateOptions{})
		if !errors.Is(err, client.ErrNotLeading) || len(a.log()) > 0 {
			t.Errorf("%v, %d requests", err, len(a.log()))
		}
	})
}

func TestWireCI3CI4(t *testing.T) {
	const protobuf = "application/vnd.kubernetes.protobuf"
	for _, contentType := range []string{"", protobuf, "application/json"} {
		bubble(t, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, &corev1.Pod{}) })
			b := NewBuilder(a.config, Options{Component: component, ContentType: contentType})
			pods := controllerClient(t, b, "replicaset-controller").CoreV1().Pods("default")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			want := contentType
			if want == "" {
				want = protobuf
			}
			log := a.log()
			for _, r := range log {
				if got := r.Header.Get("Accept"); got != want+", */*" {
					t.Errorf("CI-3: %s: Accept is %q", r.Method, got)
				}
				if got := r.Header.Get("Accept-Encoding"); got != "" {
					t.Errorf("CI-4: %s: Accept-Encoding is %q", r.Method, got)
				}
			}
			if got := log[0].Header.Get("Content-Type"); got != want {
				t.Errorf("CI-3: Content-Type is %q, want %q", got, want)
			}
			o, _, err := scheme.Codecs.UniversalDeserializer().Decode(log[0].Body, nil, nil)
			if p, ok := o.(*corev1.Pod); err != nil || !ok || p.Name != "p" {
				t.Errorf("CI-3: the body decodes as %v, %v", o, err)
			}
			if got := log[1].Header.Get("Content-Type"); got != "application/strategic-merge-patch+json" {
				t.Errorf("CI-3: Content-Type of a patch is %q", got)
			}
		})
	}
}

type countWarnings struct{ n atomic.Int32 }

func (c *countWarnings) HandleWarningHeaderWithContext(context.Context, int, string, string) {
	c.n.Add(1)
}

func TestWarningsDroppedCI7(t *testing.T) {
	defer rest.SetDefaultWarningHandlerWithContext(rest.WarningLogger{})
	var count countWarnings
	rest.SetDefaultWarningHandlerWithContext(&count)
	bubble(t, func(t *testing.T) {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Warning", `299 - "v1 Endpoints is deprecated in v1.33+"`)
			reply(w, http.StatusOK, &corev1.EndpointsList{})
		})
		a.config.WarningHandlerWithContext = &count // of the base: replaced too
		b := NewBuilder(a.config, Options{Component: component})
		for _, c := range []*kubernetes.Clientset{clientset(t, b.Config(Informers)), controllerClient(t, b, "endpoint-controller")} {
			if _, err := c.CoreV1().Endpoints("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := count.n.Load(); n != 0 {
		t.Errorf("CI-7: %d warnings were handled", n)
	}
}

// spend sends n requests, to two API groups in turn and through configs made afresh, and returns how long it took.
func spend(t *testing.T, n int, config func() *rest.Config) time.Duration {
	t.Helper()
	first, second := clientset(t, config()), clientset(t, config())
	begin := time.Now()
	for i := range n {
		var err error
		if i%2 == 0 {
			_, err = first.CoreV1().Pods("default").Get(t.Context(), "x", metav1.GetOptions{})
		} else {
			_, err = second.AppsV1().ReplicaSets("default").Get(t.Context(), "x", metav1.GetOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(begin)
}

func TestLimitsCI5(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want time.Duration // for 50 requests
	}{
		"CI-5: 20 a second after a burst of 30":    {Options{RateLimited: true, QPS: 20, Burst: 30}, time.Second},
		"a burst below 1 counts as 1":              {Options{RateLimited: true, QPS: 49, Burst: 0}, time.Second},
		"not limited: server-side fairness":        {Options{QPS: 20, Burst: 30}, 0},
		"a negative QPS is no limit":               {Options{RateLimited: true, QPS: -1, Burst: 30}, 0},
		"a QPS of zero is no limit, not a default": {Options{RateLimited: true, QPS: 0, Burst: 30}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, &corev1.Pod{}) })
				c.o.Component = component
				b := NewBuilder(a.config, c.o)
				for _, account := range []string{"deployment-controller", "replicaset-controller"} { // each its own
					got := spend(t, 50, func() *rest.Config {
						config, err := b.Controller(account)
						if err != nil {
							t.Fatal(err)
						}
						return config
					})
					if (got - c.want).Abs() > 50*time.Millisecond {
						t.Errorf("%s: 50 requests took %v, want %v", account, got, c.want)
					}
				}
				if got := spend(t, 300, func() *rest.Config { return b.Lease(10 * time.Second) }); got != 0 {
					t.Errorf("LE-5: lease requests waited %v", got)
				}
			})
		})
	}
}

func TestRetryAfterObeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) < 3 {
				w.Header().Set("Retry-After", "2")
				refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
				return
			}
			reply(w, http.StatusOK, &corev1.Pod{})
		})
		c := controllerClient(t, NewBuilder(a.config, Options{Component: component}), "replicaset-controller")
		begin := time.Now()
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 4*time.Second {
			t.Errorf("waited %v, want 4s", got)
		}
	})
}

// Who may write is asked for the namespace, and of every client that can.
func TestTheGuardKnowsTheNamespace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, &corev1.Pod{}) })
		var asked []string
		b := NewBuilder(a.config, Options{Component: component, MayWrite: func(namespace string) bool {
			asked = append(asked, namespace)
			return namespace == "mine"
		}})
		for name, config := range map[string]*rest.Config{"root": b.Guarded(Root), "controller": b.RootController("podgc")} {
			c := clientset(t, config)
			_, allowed := c.CoreV1().Pods("mine").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
			_, refused := c.CoreV1().Pods("yours").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
			deleted := c.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{})
			_, read := c.CoreV1().Pods("yours").Get(t.Context(), "p", metav1.GetOptions{})
			if allowed != nil || read != nil || !errors.Is(refused, client.ErrNotLeading) || !errors.Is(deleted, client.ErrNotLeading) {
				t.Errorf("%s: %v, %v, %v, %v", name, allowed, read, refused, deleted)
			}
			if got := fmt.Sprintf("%q", asked); got != `["mine" "yours" ""]` {
				t.Errorf("%s: asked for %s", name, got)
			}
			asked = nil
		}
	})
}

// A write waits for what is to be waited for before it, and is not sent if that fails. A read waits for nothing.
func TestWritesWaitForWhatIsBeforeThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sent := 0
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { sent++; reply(w, http.StatusOK, &corev1.Pod{}) })
		away := errors.New("nobody answers")
		var wrong error
		b := NewBuilder(a.config, Options{
			Component: component, MayWrite: func(string) bool { return true },
			BeforeWrite: func(context.Context) error { time.Sleep(3 * time.Second); return wrong },
		})
		pods, began := clientset(t, b.RootController("podgc")).CoreV1().Pods("default"), time.Now()
		if _, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); err != nil || time.Since(began) != 0 || sent != 1 {
			t.Errorf("a read: %v after %v", err, time.Since(began))
		}
		if _, err := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{}); err != nil || time.Since(began) != 3*time.Second ||
			sent != 2 {
			t.Errorf("a write: %v after %v", err, time.Since(began))
		}
		wrong = away
		if _, err := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{}); !errors.Is(err, away) || sent != 2 ||
			executor.Answered(err) {
			t.Errorf("a write before which something failed: %v, %d requests", err, sent)
		}
	})
}

func TestGuardLE14(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, &corev1.Pod{}) })
		var may atomic.Bool
		may.Store(true)
		b := NewBuilder(a.config,
			Options{Component: component, RateLimited: true, QPS: 1, Burst: 1, MayWrite: func(string) bool { return may.Load() }})
		pods := controllerClient(t, b, "replicaset-controller").CoreV1().Pods("default")
		create := func() error {
			_, err := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
			return err
		}
		if err := create(); err != nil {
			t.Fatal(err)
		}
		// The second waits a second for the limiter; meanwhile the lease is lost.
		time.AfterFunc(time.Second/2, func() { may.Store(false) })
		err := create()
		if !errors.Is(err, client.ErrNotLeading) {
			t.Errorf("a write that was queued when the lease was lost returned %v", err)
		}
		if !executor.Answered(err) || !executor.Silent(err) {
			t.Errorf("LE-14: %v counts as a write of which nobody knows what became of it", err)
		}
		if _, err := pods.Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			t.Errorf("reads are not held back: %v", err)
		}
		if _, err := clientset(t, b.Config(Root)).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{},
			metav1.CreateOptions{}); err != nil {
			t.Errorf("the root client is not held back: %v", err)
		}
		if got := len(a.log()); got != 3 {
			t.Errorf("%d requests were sent, want 3", got)
		}
	})
}

func TestLeaseTimeoutLE5(t *testing.T) {
	for deadline, want := range map[time.Duration]string{10 * time.Second: "timeout=5s", time.Second: "timeout=1s"} {
		bubble(t, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			c := clientset(t, NewBuilder(a.config, Options{Component: component}).Lease(deadline))
			begin := time.Now()
			_, err := c.CoordinationV1().Leases("kube-system").Get(t.Context(), "x", metav1.GetOptions{})
			if err == nil {
				t.Fatal("no error")
			}
			if got := time.Since(begin); got != max(time.Second, deadline/2) {
				t.Errorf("LE-5: ended after %v", got)
			}
			if r := a.log()[0]; r.Query != want || !strings.HasSuffix(r.Header.Get("User-Agent"), "/leader-election") {
				t.Errorf("LE-5: query %q, user agent %q", r.Query, r.Header.Get("User-Agent"))
			}
		})
	}
}

// tlsServer serves HTTP/2 on a real socket and counts connections and the protocol of each request.
type tlsServer struct {
	*httptest.Server
	mu     sync.Mutex
	conns  map[net.Conn]bool
	protos map[string]string // user agent suffix -> protocol
	peers  map[string]string // user agent suffix -> client address
	certs  map[string]int
	auth   map[string]string
	silent func(r *http.Request) bool
}

func newTLSServer(t *testing.T) *tlsServer {
	s := &tlsServer{
		conns: map[net.Conn]bool{}, protos: map[string]string{}, peers: map[string]string{},
		certs: map[string]int{}, auth: map[string]string{},
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		agent := r.UserAgent()[strings.LastIndex(r.UserAgent(), "/")+1:]
		s.mu.Lock()
		s.protos[agent], s.peers[agent] = r.Proto, r.RemoteAddr
		s.certs[agent], s.auth[agent] = len(r.TLS.PeerCertificates), r.Header.Get("Authorization")
		silent := s.silent
		s.mu.Unlock()
		if silent != nil && silent(r) {
			<-r.Context().Done()
			return
		}
		if strings.HasSuffix(r.URL.Path, "/token") {
			reply(w, http.StatusCreated, tokenAnswer("t1", time.Hour))
			return
		}
		reply(w, http.StatusOK, &corev1.Pod{})
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.conns[c] = true
		}
	}
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *tlsServer) base() *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}}
}

func TestLeaseHasItsOwnConnection(t *testing.T) {
	s := newTLSServer(t)
	b := NewBuilder(s.base(), Options{Component: component})
	for _, c := range []*rest.Config{b.Config(Root), b.Config(Informers), b.Lease(10 * time.Second)} {
		if _, err := clientset(t, c).CoreV1().Pods("default").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.protos[Root] != "HTTP/2.0" || s.peers[Root] != s.peers[Informers] {
		t.Errorf("the others should share an HTTP/2 connection: %v %v", s.protos, s.peers)
	}
	if s.protos[LeaderElection] != "HTTP/1.1" || s.peers[LeaderElection] == s.peers[Root] || len(s.conns) != 2 {
		t.Errorf("the lease should have its own HTTP/1.1 connection: %v %v", s.protos, s.peers)
	}
}

func TestNoDefaultTransport(t *testing.T) {
	for _, host := range []string{"http://api", "https://api"} {
		b := NewBuilder(&rest.Config{Host: host}, Options{Component: component})
		for _, c := range []*rest.Config{b.Config(Root), b.Lease(time.Second)} {
			rt, err := rest.TransportFor(c)
			if err != nil {
				t.Fatal(err)
			}
			for {
				wrapped, ok := rt.(interface{ WrappedRoundTripper() http.RoundTripper })
				if !ok {
					break
				}
				rt = wrapped.WrappedRoundTripper()
			}
			if rt == http.DefaultTransport {
				t.Errorf("%s uses http.DefaultTransport for %s", c.UserAgent, host)
			}
		}
	}
}

func TestLeaseLeavesASilentConnection(t *testing.T) {
	s := newTLSServer(t)
	leases := clientset(t, NewBuilder(s.base(), Options{Component: component}).Lease(2*time.Second)).CoordinationV1().Leases("x")
	get := func() error { _, err := leases.Get(t.Context(), "x", metav1.GetOptions{}); return err }
	if err := get(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	dead := s.peers[LeaderElection]
	s.silent = func(r *http.Request) bool { return r.RemoteAddr == dead }
	s.mu.Unlock()
	if err := get(); err == nil {
		t.Fatal("the silent connection answered")
	}
	if err := get(); err != nil {
		t.Errorf("after the time-out the next try should dial anew: %v", err)
	}
}

func TestServiceAccountHasNoCertificateCI23(t *testing.T) {
	s := newTLSServer(t)
	base := s.base()
	pair := s.TLS.Certificates[0]
	base.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	base.KeyData = keyPEM(t, pair)
	b := NewBuilder(base, Options{Component: component, ServiceAccounts: true})
	if _, err := controllerClient(t, b, "pod-garbage-collector").CoreV1().Pods("x").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	const account = "system:serviceaccount:kube-system:pod-garbage-collector"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.certs[Root] != 1 || s.auth[Root] != "" {
		t.Errorf("root: %d certificates, authorization %q", s.certs[Root], s.auth[Root])
	}
	if s.certs[account] != 0 || s.auth[account] != "Bearer t1" {
		t.Errorf("CI-23: account: %d certificates, authorization %q", s.certs[account], s.auth[account])
	}
}

func TestServiceAccountLeavesRootCredentialsCI23(t *testing.T) {
	base := &rest.Config{
		Host: "https://api", BearerToken: "root", BearerTokenFile: "/nowhere", Username: "u", Password: "p",
		Impersonate:     rest.ImpersonationConfig{UserName: "root"},
		TLSClientConfig: rest.TLSClientConfig{ServerName: "sni", CAData: []byte("ca"), CertData: []byte("c"), KeyData: []byte("k")},
	}
	b := NewBuilder(base, Options{Component: component, ContentType: "application/json"})
	root := b.Config(Root)
	if root.BearerToken != "root" || string(root.CertData) != "c" || root.Impersonate.UserName != "root" {
		t.Error("CI-2: the root client lost its identity")
	}
	b.options.ServiceAccounts = true
	b.root = func() (kubernetes.Interface, error) { return nil, nil }
	c, err := b.Controller("endpoint-controller")
	if err != nil {
		t.Fatal(err)
	}
	if c.BearerToken+c.BearerTokenFile+c.Username+c.Password+string(c.CertData)+string(c.KeyData)+c.Impersonate.UserName != "" {
		t.Errorf("CI-23: credentials of root are left: %v", c)
	}
	if c.Host != base.Host || c.ServerName != "sni" || string(c.CAData) != "ca" || c.ContentType != "application/json" {
		t.Errorf("CI-23: server, CA or content type differ: %v", c)
	}
}

func TestEnsureServiceAccountsCI21(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/serviceaccounts"
	for name, c := range map[string]struct {
		found, namespace bool
		create           int
		want             []string
		fails            bool
	}{
		"found": {found: true, want: []string{"GET " + path + "/a"}},
		"missing": {namespace: true, create: 201,
			want: []string{"GET " + path + "/a", "GET /api/v1/namespaces/kube-system", "POST " + path}},
		"missing, and made meanwhile": {namespace: true, create: 409,
			want: []string{"GET " + path + "/a", "GET /api/v1/namespaces/kube-system", "POST " + path}},
		"namespace missing": {create: 201,
			want: []string{"GET " + path + "/a", "GET /api/v1/namespaces/kube-system", "POST /api/v1/namespaces", "POST " + path}},
		"denied": {namespace: true, create: 403, fails: true,
			want: []string{"GET " + path + "/a", "GET /api/v1/namespaces/kube-system", "POST " + path}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == "POST" && r.URL.Path == "/api/v1/namespaces":
						refuse(w, 403, metav1.StatusReasonForbidden) // tolerated (RB-12)
					case r.Method == "POST" && c.create == 201:
						reply(w, 201, &corev1.ServiceAccount{})
					case r.Method == "POST" && c.create == 409:
						refuse(w, 409, metav1.StatusReasonAlreadyExists)
					case r.Method == "POST":
						refuse(w, 403, metav1.StatusReasonForbidden)
					case strings.HasPrefix(r.URL.Path, path) && c.found, !strings.HasPrefix(r.URL.Path, path) && c.namespace:
						reply(w, 200, &corev1.ServiceAccount{})
					default:
						refuse(w, 404, metav1.StatusReasonNotFound)
					}
				})
				b := NewBuilder(a.config, Options{Component: component, ServiceAccounts: true})
				if err := b.EnsureServiceAccounts(t.Context(), "a"); (err != nil) != c.fails {
					t.Errorf("returned %v", err)
				} else if c.fails && !apierrors.IsForbidden(err) {
					t.Errorf("lost the reason: %v", err)
				}
				var got []string
				for _, r := range a.log() {
					got = append(got, r.Method+" "+r.Path)
				}
				if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
					t.Errorf("requests\n%q, want\n%q", got, c.want)
				}
			})
		})
	}
	if err := NewBuilder(&rest.Config{}, Options{}).EnsureServiceAccounts(t.Context(), "a"); err != nil {
		t.Errorf("without service accounts there is nothing to do: %v", err)
	}
}

func TestBuilderIsConcurrent(t *testing.T) {
	b := NewBuilder(&rest.Config{Host: "http://api"},
		Options{Component: component, ServiceAccounts: true, RateLimited: true, QPS: 1, Burst: 1})
	var limiters sync.Map
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			c, err := b.Controller("a")
			if err != nil {
				t.Error(err)
				return
			}
			c.UserAgent = "changed by the caller"
			limiters.Store(c.RateLimiter, true)
			b.Config(Informers)
		})
	}
	group.Wait()
	n := 0
	limiters.Range(func(any, any) bool { n++; return true })
	if c, _ := b.Controller("a"); n != 1 || c.UserAgent == "changed by the caller" {
		t.Errorf("%d limiters for one name, user agent %q", n, c.UserAgent)
	}
}
