package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/serving"
	"github.com/standalone-kcm/controller-manager/internal/serving/access"
	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// configured returns what the arguments amount to.
func configured(t *testing.T, args ...string) options.Config {
	t.Helper()
	c, _ := configuredWithRegistry(t, args...)
	return c
}

// configuredWithRegistry also returns the controllers, with the options that the arguments set.
func configuredWithRegistry(t *testing.T, args ...string) (c options.Config, registry []manager.Controller) {
	t.Helper()
	p := NewProgram("controller-manager", controllers.Registry())
	p.Start = func(_ context.Context, got options.Config) error { c = got; return nil }
	if code, _, stderr := execute(t, t.Context(), p, append([]string{server}, args...)...); code != 0 {
		t.Fatal(stderr)
	}
	return c, p.Registry
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestServingThatCannotBe runs the real program with what cannot be served: one clear line, and exit code 1.
// kubeconfig writes one for the server, and returns where.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: "` + server + `"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServingThatCannotBe(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refuses.Close()
	for _, test := range []struct {
		name, args, want string
	}{
		{"CLI-30 the port is taken", "--secure-port=" + port,
			`listen tcp 127.0.0.1:` + port + `: bind: address already in use; choose another --secure-port, or 0 to serve nothing`},
		{"CLI-32 no certificate", "--tls-cert-file=/nope --tls-private-key-file=/nope", `--tls-cert-file: open /nope: no such file or directory`},
		{"CLI-32 no key given", "--tls-cert-file=/nope", `--tls-cert-file and --tls-private-key-file must be given together`},
		{"CLI-32 a malformed certificate", "--tls-cert-file=" + garbage + " --tls-private-key-file=" + garbage,
			`certificate ` + garbage + ` with key ` + garbage + `: tls: failed to find any PEM data in certificate input`},
		{"CLI-33 nowhere to keep it", "--cert-dir=/proc/nope", `certificate in /proc/nope: mkdir /proc/nope: no such file or directory`},
		{"CLI-34 no such certificate for names", "--tls-sni-cert-key=/nope,/nope", `--tls-sni-cert-key: open /nope: no such file or directory`},
		{"CLI-34 no such TLS version", "--tls-min-version=VersionSSL30", `--tls-min-version: unknown tls version \"VersionSSL30\"`},
		{"CLI-34 no such cipher", "--tls-cipher-suites=ROT13", `--tls-cipher-suites: Cipher suite ROT13 not supported or doesn't exist`},
		{"CLI-34 no cipher for HTTP/2", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
			`HTTP/2 over TLS 1.2 needs cipher suite `},
		{"CLI-35 no kubeconfig for tokens", "--authentication-kubeconfig=/nope",
			`--authentication-kubeconfig: stat /nope: no such file or directory`},
		{"CLI-35 no kubeconfig for access", "--authorization-kubeconfig=/nope",
			`--authorization-kubeconfig: stat /nope: no such file or directory`},
		{"CLI-35 a malformed kubeconfig", "--authorization-kubeconfig=" + garbage, `--authorization-kubeconfig: error loading config file`},
		{"CLI-36 nothing may be looked up", "--authentication-kubeconfig=" + kubeconfig(t, refuses.URL),
			`look up authentication in ConfigMap kube-system/extension-apiserver-authentication: `},
		{"CLI-38 a star in the middle", "--authorization-always-allow-paths=/a*b",
			`always allowed paths: only trailing * allowed in \"a*b\"`},
		{"CLI-39 no client CA", "--client-ca-file=/nope", `--client-ca-file: open /nope: no such file or directory`},
		{"CLI-39 a malformed client CA", "--client-ca-file=" + garbage,
			`certificate authorities of ` + garbage + `: data does not contain`},
		{"CLI-39 no front proxy CA", "--requestheader-client-ca-file=/nope", `--requestheader-client-ca-file: open /nope: no such file or directory`},
		{"CLI-47 no manifest", "--allow-metric-labels-manifest=/nope",
			`--allow-metric-labels-manifest: open /nope: no such file or directory`},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{server, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(freePort(t))},
				strings.Fields(test.args)...)
			code, _, stderr := execute(t, t.Context(), NewProgram("controller-manager", controllers.Registry()), args...)
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			last, want := lines[len(lines)-1], logLine+`"command failed" err="`+regexp.QuoteMeta(test.want)
			if code != 1 || !regexp.MustCompile(want).MatchString(last) {
				t.Errorf("exit code %d, last line: %s\nwant %s", code, last, want)
			}
			if n := strings.Count(stderr, "\nE"); n > 1 {
				t.Errorf("%d errors: %s", n, stderr)
			}
		})
	}
}

// TestNoPort: CLI-30. Nothing is served, and nothing that only a server needs is looked at.
func TestNoPort(t *testing.T) {
	c := configured(t, "--secure-port=0", "--tls-cert-file=/nope", "--tls-private-key-file=/nope", "--authentication-kubeconfig=/nope")
	if s, err := newServer(t.Context(), c); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// TestServingConfig checks that what the flags say reaches the server.
func TestServingConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	c := configured(t, "--secure-port=1", "--bind-address=::1", "--permit-address-sharing", "--permit-port-sharing", "--tls-cert-file=c",
		"--tls-private-key-file=k", "--cert-dir=d", "--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256",
		"--tls-curve-preferences=29", "--tls-sni-cert-key=a,b:x,y", "--disable-http2-serving", "--http2-max-streams-per-connection=7",
		"--client-ca-file=ca", "--requestheader-client-ca-file=pca", "--requestheader-allowed-names=n",
		"--requestheader-username-headers=u",
		"--requestheader-uid-headers=i", "--requestheader-group-headers=g", "--requestheader-extra-headers-prefix=e",
		"--authentication-token-webhook-cache-ttl=1s", "--authentication-tolerate-lookup-failure",
		"--authorization-webhook-cache-authorized-ttl=2s", "--authorization-webhook-cache-unauthorized-ttl=3s",
		"--authorization-always-allow-paths=/a")
	got, err := servingConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := serving.Config{
		Address: net.IPv6loopback, Port: 1, ShareAddress: true, SharePort: true,
		TLS: serving.TLS{
			Server: certificates.Server{
				CertFile: "c", KeyFile: "k", CertDir: "d", CertName: "kube-controller-manager",
				Named: []certificates.Named{{CertFile: "a", KeyFile: "b", Names: []string{"x", "y"}}},
			},
			MinVersion: tls.VersionTLS13, CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256}, Curves: []tls.CurveID{tls.X25519},
			DisableHTTP2: true, HTTP2MaxStreams: 7,
		},
		Authentication: serving.Authentication{
			TokenTTL: time.Second,
			Clients: certificates.Clients{
				ClientCAFile: "ca", TolerateLookupFailure: true,
				FrontProxy: certificates.FrontProxy{
					CAFile: "pca", Names: []string{"n"}, UserHeaders: []string{"u"}, UIDHeaders: []string{"i"}, GroupHeaders: []string{"g"},
					ExtraPrefixes: []string{"e"},
				},
			},
		},
		Authorization: access.Authorization{AlwaysAllow: []string{"/a"}, AllowedTTL: 2 * time.Second, DeniedTTL: 3 * time.Second},
		Probes:        []string{"/healthz", "/livez", "/readyz"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CLI-30..39 (- want, + got):\n%s", diff)
	}

	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}],
		clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, skip := range []bool{false, true} {
		c := configured(t, "--authentication-kubeconfig="+path, "--authorization-kubeconfig="+path,
			fmt.Sprintf("--authentication-skip-lookup=%t", skip))
		got, err := servingConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got.Authentication.Tokens == nil || got.Authorization.Reviews == nil || (got.Authentication.Cluster == nil) != skip {
			t.Errorf("CLI-35, CLI-36, skip %t: %+v", skip, got)
		}
	}
}

// built returns the handlers of a manager that was built and never ran.
func built(t *testing.T, args ...string) map[string]http.Handler {
	t.Helper()
	c, registry := configuredWithRegistry(t, args...)
	m, err := manager.New(c.Client, c.Manager)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ended); err != nil {
		t.Fatal(err)
	}
	return handlers(c, registry, m, time.Now())
}

func TestHandlers(t *testing.T) {
	get := func(h http.Handler, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	all := built(t, "--bind-address=127.0.0.1", "--leader-elect-lease-duration=20s", "--controllers=*,-replicaset",
		"--min-resync-period=1h",
		"--concurrent-rc-syncs=7", "--concurrent-disruption-syncs=3", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8")
	for _, path := range []string{"/healthz", "/livez", "/livez/", "/readyz", "/readyz/", "/metrics", "/metrics/slis", "/configz", "/flagz",
		"/statusz",
		"/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace", "/debug/flags/v",
		"/debug/explain", "/debug/explain/", "/debug/snapshot/"} {
		if all[path] == nil {
			t.Errorf("MH-6..14: no %s", path)
		}
	}
	if code, body := get(all["/healthz"], "/healthz"); code != 200 || body != "ok" {
		t.Errorf("MH-6: %d %s", code, body)
	}
	if _, body := get(all["/flagz"], "/flagz"); !strings.Contains(body, "\nbind-address: 127.0.0.1\n") || strings.Count(body, "\n") < 150 {
		t.Errorf("MH-11: %s", body)
	}
	if _, body := get(all["/statusz"], "/statusz"); !strings.HasSuffix(body,
		"\nEmulation version: 1.37\nPaths: /configz /flagz /healthz /livez /metrics /metrics/slis /readyz\n") {
		t.Errorf("MH-11: %s", body)
	}
	_, body := get(all["/configz"], "/configz")
	var configz map[string]struct {
		Kind, APIVersion string
		Generic          struct {
			MinResyncPeriod  string
			ClientConnection struct {
				ContentType string
				QPS         float64
				Burst       int
			}
			LeaderElection struct{ LeaseDuration string }
			Controllers    []string
			Debugging      struct{ EnableProfiling bool }
		}
		DeploymentController  struct{ ConcurrentDeploymentSyncs int }
		ReplicaSetController  struct{ ConcurrentRSSyncs int }
		ReplicationController struct{ ConcurrentRCSyncs int }
		EndpointController    struct {
			ConcurrentEndpointSyncs    int
			EndpointUpdatesBatchPeriod string
		}
		PodGCController      struct{ TerminatedPodGCThreshold int }
		DisruptionController struct{ ConcurrentDisruptionSyncs int }
		KubeCloudShared      struct {
			AllocateNodeCIDRs              bool
			ClusterCIDR, CIDRAllocatorType string
		}
		ServiceController *struct{ ConcurrentServiceSyncs int }
	}
	if err := json.Unmarshal([]byte(body), &configz); err != nil {
		t.Fatal(err)
	}
	want := "[{KubeControllerManagerConfiguration kubecontrollermanager.config.k8s.io/v1alpha1 {1h0m0s " +
		"{application/vnd.kubernetes.protobuf -1 0} {20s} " +
		"[* -replicaset-controller] {true}} {5} {5} {7} {5 0s} {12500} {3} {true 10.0.0.0/8 RangeAllocator} <nil>}]"
	shown := configz["kubecontrollermanager.config.k8s.io"]
	if shown.ServiceController == nil {
		t.Error("MH-10: no section of the Service controller")
	}
	shown.ServiceController = nil
	if got := fmt.Sprint("[", shown, "]"); got != want {
		t.Errorf("MH-10: %s", got)
	}

	some := built(t, "--profiling=false", "--feature-gates=ComponentFlagz=false,ComponentStatusz=false")
	for _, path := range []string{"/flagz", "/statusz", "/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v"} {
		if some[path] != nil {
			t.Errorf("MH-11..13, CLI-40, CLI-73: %s is off", path)
		}
	}
}

func TestContentionProfiling(t *testing.T) { // CLI-41
	defer runtime.SetBlockProfileRate(0)
	blocked := func() bool {
		c := make(chan int)
		go func() { time.Sleep(time.Millisecond); close(c) }()
		<-c
		records := make([]runtime.BlockProfileRecord, 10000)
		n, _ := runtime.BlockProfile(records)
		return slices.ContainsFunc(records[:n], func(r runtime.BlockProfileRecord) bool {
			frames := runtime.CallersFrames(r.Stack())
			for {
				frame, more := frames.Next()
				if strings.Contains(frame.Function, "TestContentionProfiling") {
					return true
				}
				if !more {
					return false
				}
			}
		})
	}
	for _, args := range [][]string{nil, {"--contention-profiling", "--profiling=false"}, {"--contention-profiling"}} {
		profileContention(configured(t, args...).Serving)
		if want := len(args) == 1; blocked() != want {
			t.Errorf("%q: recorded %t", args, !want)
		}
	}
}

// TestServeWhile is about how the server and the work end together (CLI-57, CLI-63).
func TestServeWhile(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name string
		work func(ctx context.Context, s *serving.Server, cancel func()) error
		want string
	}{
		{"told to end", func(ctx context.Context, s *serving.Server, cancel func()) error {
			cancel()
			<-ctx.Done()
			if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
				return errors.New("CLI-63: it still listens when the work is told to end")
			}
			return nil
		}, "<nil>"},
		{"the work ends", func(context.Context, *serving.Server, func()) error { return nil }, "<nil>"},
		{"the work fails", func(context.Context, *serving.Server, func()) error { return broken }, "broken"},
		{"the server breaks", func(ctx context.Context, s *serving.Server, _ func()) error {
			_ = s.Close()
			<-ctx.Done()
			return nil
		}, "serve HTTPS on"},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
			defer cancel()
			s, err := serving.New(ctx,
				serving.Config{Address: net.IPv4(127, 0, 0, 1), Authorization: access.Authorization{AlwaysAllow: []string{"/x"}}})
			if err != nil {
				t.Fatal(err)
			}
			serves := map[string]http.Handler{"/x": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_,
					_ = io.WriteString(w, "x")
			})}
			err = serveWhile(ctx, s, serves, func(ctx context.Context) error {
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				defer transport.CloseIdleConnections()
				answer, err := (&http.Client{Transport: transport}).Get("https://" + s.Addr().String() + "/x")
				if err != nil {
					return err
				}
				_ = answer.Body.Close()
				return test.work(ctx, s, cancel)
			})
			if !strings.HasPrefix(fmt.Sprint(err), test.want) || errors.Is(err, broken) != (test.want == "broken") {
				t.Errorf("got %v", err)
			}
			goleak.VerifyNone(t, leaks)
		})
	}
}

// TestServesBeforeTheAPIServerAnswers runs the real program, also with something to look up there: CLI-36, CLI-57.
func TestServesBeforeTheAPIServerAnswers(t *testing.T) {
	for _, args := range [][]string{nil, {"--authentication-kubeconfig=" + kubeconfig(t, "http://127.0.0.1:1")}} {
		port := strconv.Itoa(freePort(t))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		type result struct {
			code   int
			stderr string
		}
		ended := make(chan result, 1)
		go func() {
			args := append([]string{server, "--bind-address=127.0.0.1", "--secure-port=" + port}, args...)
			code, _, stderr := execute(t, ctx, NewProgram("controller-manager", controllers.Registry()), args...)
			ended <- result{code, stderr}
		}()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for path, want := range map[string]int{"/healthz": http.StatusOK, "/livez": http.StatusOK,
			"/readyz": http.StatusInternalServerError} {
			for end := time.Now().Add(8 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				answer, err := client.Get("https://127.0.0.1:" + port + path)
				if err == nil {
					_ = answer.Body.Close()
					if answer.StatusCode != want {
						t.Errorf("CLI-78: %s: %s", path, answer.Status)
					}
					break
				}
				if time.Now().After(end) {
					t.Fatalf("CLI-57: %v", err)
				}
			}
		}
		cancel()
		if r := <-ended; r.code != 0 || strings.Contains(r.stderr, "\nE") && args == nil {
			t.Errorf("CLI-63: exit code %d\n%s", r.code, r.stderr)
		}
	}
}
