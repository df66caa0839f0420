package serving

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

func forbidden(who, verb, path, why string) string {
	message, _ := json.Marshal(fmt.Sprintf("forbidden: User %q cannot %s path %q", who, verb, path) + why)
	return `{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": ` + string(message) + `,
  "reason": "Forbidden",
  "details": {},
  "code": 403
}
`
}

const unauthorized = `{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": "Unauthorized",
  "reason": "Unauthorized",
  "code": 401
}
`

// guarded runs a server that knows clients by everything there is.
func guarded(t *testing.T) (r *running, api *apiServer, clients, proxies *issuer) {
	t.Helper()
	api, clients, proxies = newAPIServer(t), newIssuer(t, "clients"), newIssuer(t, "proxies")
	c := basic()
	api.ask(&c)
	c.Authentication.ClientCAFile = file(t, clients.pem)
	c.Authentication.FrontProxy = certificates.FrontProxy{
		CAFile: file(t, proxies.pem), Names: []string{"proxy"}, UserHeaders: []string{"X-Remote-User"},
		UIDHeaders:   []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
	handlers := paths()
	return run(t, c, handlers), api, clients, proxies
}

func TestWhoMayHaveWhat(t *testing.T) {
	r, api, clients, proxies := guarded(t)
	strangers := newIssuer(t, "strangers")
	asAlice := http.Header{"X-Remote-User": {"alice"}, "X-Remote-Group": {"a", "b"}}
	asMaster := http.Header{"X-Remote-User": {"eve"}, "X-Remote-Group": {"system:masters"}}
	for _, test := range []struct {
		name   string
		cert   *signed
		header http.Header
		method string
		path   string
		code   int
		body   string
	}{
		{name: "MH-3 nobody", path: "/metrics", code: 403, body: forbidden("system:anonymous", "get", "/metrics", "")},
		{name: "MH-3 the verb is in lower case", method: "DELETE", path: "/metrics", code: 403,
			body: forbidden("system:anonymous", "delete", "/metrics", "")},
		{name: "MH-4 nobody, no such path", path: "/nope", code: 403, body: forbidden("system:anonymous", "get", "/nope", "")},
		{name: "MH-3 the path is what is served", path: "/a%2fb%0a?x=y", code: 403,
			body: forbidden("system:anonymous", "get", "/a/b\n", "")},
		{name: "CLI-38 nobody, a path for everybody", path: "/healthz", code: 200, body: "ok"},
		{name: "CLI-38 exactly that path", path: "/livez/ping", code: 403, body: forbidden("system:anonymous", "get", "/livez/ping", "")},
		{name: "CLI-38 not with two slashes", path: "//healthz", code: 403, body: forbidden("system:anonymous", "get", "//healthz", "")},
		{name: "MH-6 any method works", method: "POST", path: "/healthz", code: 200, body: "ok"},
		{name: "MH-2 a token", header: bearer("scraper"), path: "/metrics", code: 200, body: "a 1\n"},
		{name: "MH-4 a token, no such path", header: bearer("scraper"), path: "/", code: 403,
			body: forbidden("prometheus", "get", "/", "")},
		{name: "MH-3 a token of another", header: bearer("guest"), path: "/metrics", code: 403,
			body: forbidden("guest", "get", "/metrics", ": guests may not")},
		{name: "MH-2 a bad token", header: bearer("forged"), path: "/metrics", code: 401, body: unauthorized},
		{name: "MH-2 a bad token, a path for everybody", header: bearer("forged"), path: "/healthz", code: 401, body: unauthorized},
		{name: "MH-2 no token at all", header: http.Header{"Authorization": {"Basic YTpi"}}, path: "/metrics", code: 403,
			body: forbidden("system:anonymous", "get", "/metrics", "")},
		{name: "CLI-39 a certificate", cert: ptr(clients.issue(t, "alice", nil)), path: "/metrics", code: 200, body: "a 1\n"},
		{name: "CLI-39 a certificate of another", cert: ptr(clients.issue(t, "bob", nil)), path: "/metrics", code: 403,
			body: forbidden("bob", "get", "/metrics", "")},
		{name: "MH-3 system:masters", cert: ptr(clients.issue(t, "root", member("system:masters"))), path: "/nope", code: 404,
			body: "404 page not found\n"},
		{name: "CLI-39 a certificate of strangers", cert: ptr(strangers.issue(t, "alice", nil)), path: "/metrics", code: 401,
			body: unauthorized},
		{name: "CLI-39 an expired certificate", cert: ptr(clients.issue(t, "alice", expired)), path: "/metrics", code: 401,
			body: unauthorized},
		{name: "CLI-39 a certificate not for clients", cert: ptr(clients.issue(t, "alice", notForClients)), path: "/metrics", code: 401,
			body: unauthorized},
		{name: "CLI-39 a front proxy", cert: ptr(proxies.issue(t, "proxy", nil)), header: asAlice, path: "/metrics", code: 200,
			body: "a 1\n"},
		{name: "CLI-39 a front proxy tells of a master", cert: ptr(proxies.issue(t, "proxy", nil)), header: asMaster, path: "/nope",
			code: 404,
			body: "404 page not found\n"},
		{name: "CLI-39 headers without a certificate", header: asMaster, path: "/metrics", code: 403,
			body: forbidden("system:anonymous", "get", "/metrics", "")},
		{name: "CLI-39 headers with a client's certificate", cert: ptr(clients.issue(t, "bob", nil)), header: asMaster, path: "/metrics",
			code: 403, body: forbidden("bob", "get", "/metrics", "")},
		{name: "CLI-39 a proxy of another name", cert: ptr(proxies.issue(t, "other", nil)), header: asAlice, path: "/metrics", code: 401,
			body: unauthorized},
		{name: "CLI-39 an expired proxy", cert: ptr(proxies.issue(t, "proxy", expired)), header: asMaster, path: "/metrics", code: 401,
			body: unauthorized},
	} {
		t.Run(test.name, func(t *testing.T) {
			var certs []tls.Certificate
			if test.cert != nil {
				certs = append(certs, test.cert.tls(t))
			}
			if test.method == "" {
				test.method = http.MethodGet
			}
			client := r.client(certs...)
			defer client.CloseIdleConnections()
			g := r.do(client, test.method, test.path, test.header.Clone(), "")
			if g.StatusCode != test.code || g.body != test.body {
				t.Errorf("got %d\n%s\nwant %d\n%s", g.StatusCode, g.body, test.code, test.body)
			}
			if got := g.Header.Get("Cache-Control"); got != "no-cache, private" {
				t.Errorf("MH-4: Cache-Control %q", got)
			}
			if kind := g.Header.Get("Content-Type"); (test.code == 401 || test.code == 403) && kind != "application/json" {
				t.Errorf("Content-Type %q", kind)
			}
		})
	}
	if log := r.log.String(); strings.Contains(log, "scraper") || strings.Contains(log, "forged") {
		t.Error("a token is in the log")
	}
	for _, spec := range api.accesses {
		if spec.User == "prometheus" {
			want := authorizationv1.SubjectAccessReviewSpec{
				User: "prometheus", UID: "u1", Groups: []string{"monitoring", "system:authenticated"},
				Extra:                 map[string]authorizationv1.ExtraValue{"k": {"v"}},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
			}
			if diff := cmp.Diff(want, spec); diff != "" {
				t.Errorf("MH-3 (- want, + got):\n%s", diff)
			}
			break
		}
	}
}

// TestNamesOfFrontProxies: a list that says nothing allows nobody, wherever it is from (CLI-39).
func TestNamesOfFrontProxies(t *testing.T) {
	proxies := newIssuer(t, "proxies")
	proxy := proxies.issue(t, "proxy", nil).tls(t)
	for _, test := range []struct {
		name  string
		names string // as in the ConfigMap
		code  int
	}{
		{"no list", "", 200},
		{"an empty list", `[]`, 200},
		{"its name", `["proxy"]`, 200},
		{"another name", `["other"]`, 401},
		{"no name", `[""]`, 401},
		{"blanks", `[" ", ""]`, 401},
		{"its name and blanks", `[" proxy "]`, 401},
	} {
		for _, where := range []string{"flags", "ConfigMap"} {
			t.Run(test.name+" in "+where, func(t *testing.T) {
				c := basic()
				if where == "ConfigMap" {
					api := newAPIServer(t)
					api.configMap = lookupMap(map[string]string{
						"requestheader-client-ca-file": string(proxies.pem), "requestheader-allowed-names": test.names,
						"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
					})
					c.Authentication.Cluster = api.client.CoreV1().ConfigMaps(certificates.LookupNamespace)
				} else {
					c.Authentication.FrontProxy = certificates.FrontProxy{
						CAFile: file(t, proxies.pem), UserHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}}
					if test.names != "" {
						if err := json.Unmarshal([]byte(test.names), &c.Authentication.FrontProxy.Names); err != nil {
							t.Fatal(err)
						}
					}
				}
				r := run(t, c, paths())
				header := http.Header{"X-Remote-User": {"eve"}, "X-Remote-Group": {"system:masters"}}
				if g := r.do(r.client(proxy), "GET", "/metrics", header, ""); g.StatusCode != test.code {
					t.Errorf("CLI-39: %s", g.Status)
				}
			})
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestWithoutTheAPIServer is about a server that can ask nobody (CLI-35).
func TestWithoutTheAPIServer(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"/healthz", "/open/*"}
	handlers := paths()
	handlers["/open/"] = text("open")
	r := run(t, c, handlers)
	for _, test := range []struct {
		path string
		code int
		body string
	}{
		{"/metrics", 403, forbidden("system:anonymous", "get", "/metrics", "")},
		{"/healthz", 200, "ok"},
		{"/open/x", 200, "open"},
		{"/open", 403, forbidden("system:anonymous", "get", "/open", "")},
	} {
		for _, header := range []http.Header{nil, bearer("scraper")} { // tokens are not looked at
			if g := r.get(test.path, header.Clone()); g.StatusCode != test.code || g.body != test.body {
				t.Errorf("CLI-35 %s with %v: %d %s", test.path, header, g.StatusCode, g.body)
			}
		}
	}
}

func TestWhatCannotBeAllowed(t *testing.T) {
	c := basic()
	c.Authorization.AlwaysAllow = []string{"/a*b"}
	if _, err := New(t.Context(), c); err == nil || err.Error() != `always allowed paths: only trailing * allowed in "a*b"` {
		t.Errorf("CLI-38: %v", err)
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	r, api, clients, _ := guarded(t)
	for range 5 {
		r.get("/metrics", bearer("scraper"))
		r.get("/metrics", nil)
	}
	if tokens, accesses := api.asked(); tokens != 1 || accesses != 2 {
		t.Errorf("CLI-37: %d questions about one token, %d about two accesses", tokens, accesses)
	}
	for range 3 {
		r.get("/metrics", bearer("forged"))
	}
	if tokens, accesses := api.asked(); tokens != 4 || accesses != 2 {
		t.Errorf("%d and %d: a token that is not good is asked about each time, and is let nowhere", tokens, accesses)
	}
	alice := clients.issue(t, "alice", nil).tls(t)
	for range 3 {
		r.do(r.client(alice), "GET", "/metrics", nil, "")
	}
	if tokens, accesses := api.asked(); tokens != 4 || accesses != 3 {
		t.Errorf("%d and %d: a certificate needs no question, its user one", tokens, accesses)
	}
}

// TestABrokenAPIServer: strangers are told nothing, the log is told once.
func TestABrokenAPIServer(t *testing.T) {
	r, api, _, _ := guarded(t)
	api.set(func() { api.failures = []int{403, 403, 403, 403} })
	for range 2 {
		g := r.get("/metrics", nil)
		if g.StatusCode != 500 || g.body != "Internal Server Error: \"/metrics\"\n" {
			t.Errorf("%d %s", g.StatusCode, g.body)
		}
		if g := r.get("/metrics", bearer("scraper")); g.StatusCode != 401 || g.body != unauthorized {
			t.Errorf("%d %s", g.StatusCode, g.body)
		}
	}
	for _, kind := range []string{"TokenReview", "SubjectAccessReview"} {
		if n := strings.Count(r.log.String(), `"Cannot ask the API server about a client"`); n != 2 {
			t.Errorf("%s: logged %d times for both kinds", kind, n)
		}
	}
	if g := r.get("/metrics", bearer("scraper")); g.StatusCode != 200 {
		t.Errorf("it works again, but: %d %s", g.StatusCode, g.body)
	}
	if g := r.get("/healthz", nil); g.StatusCode != 200 {
		t.Errorf("MH-5: %d", g.StatusCode)
	}
}

// TestASlowAPIServer: a question has an end, and probes need none.
func TestASlowAPIServer(t *testing.T) {
	api := newAPIServer(t)
	c := basic()
	api.ask(&c)
	c.Limits.ReviewTimeout = 50 * time.Millisecond
	api.hang = make(chan struct{})
	defer close(api.hang)
	r := run(t, c, paths())
	if g := r.get("/metrics", bearer("scraper")); g.StatusCode != 401 {
		t.Errorf("%d %s", g.StatusCode, g.body)
	}
	if g := r.get("/metrics", nil); g.StatusCode != 500 {
		t.Errorf("%d %s", g.StatusCode, g.body)
	}
	if g := r.get("/healthz", nil); g.StatusCode != 200 {
		t.Errorf("%d %s", g.StatusCode, g.body)
	}
}
