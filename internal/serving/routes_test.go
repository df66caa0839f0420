package serving

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
	"github.com/standalone-kcm/controller-manager/internal/serving/pages"
)

func TestProfiles(t *testing.T) { // MH-12
	c := basic()
	c.Authorization.AlwaysAllow = []string{"/debug/*"}
	r := run(t, c, pages.Profiles())
	for _, test := range []struct {
		path, kind, body string
		code             int
	}{
		{"/debug/pprof", "text/html; charset=utf-8", "", 302},
		{"/debug/pprof/", "text/html; charset=utf-8", "goroutine", 200},
		{"/debug/pprof/goroutine?debug=1", "text/plain; charset=utf-8", "goroutine profile: total", 200},
		{"/debug/pprof/heap", "application/octet-stream", "", 200},
		{"/debug/pprof/symbol", "text/plain; charset=utf-8", "num_symbols: 1", 200},
		{"/debug/pprof/cmdline", "text/plain; charset=utf-8", "Unknown profile", 404},
		{"/debug/pprof/../../etc/passwd", "text/plain; charset=utf-8", "", 404},
		{"/debug", "application/json", "", 403},
	} {
		g := r.get(test.path, nil)
		if g.StatusCode != test.code || g.Header.Get("Content-Type") != test.kind || !strings.Contains(g.body, test.body) {
			t.Errorf("%s: %s %v %.200s", test.path, g.Status, g.Header, g.body)
		}
		if test.code == 302 && g.Header.Get("Location") != "/debug/pprof/" {
			t.Error(g.Header)
		}
	}
}

func TestRoutes(t *testing.T) { // MH-4, MH-6
	h := newRoutes(map[string]http.Handler{
		"/healthz": text("health"), "/livez": text("live"), "/livez/": text("below live"), "/livez/a/": text("below a"), "/x": text("x"),
	})
	for path, want := range map[string]string{
		"/healthz": "health", "/livez": "live", "/livez/": "below live", "/livez/b": "below live", "/livez/a": "below live",
		"/livez/a/b": "below a",
		"/x":         "x", "/": "", "/healthz/": "", "/healthz/ping": "", "/healthz/leaderElection": "", "/x/../healthz": "", "/nope": "",
		"/HEALTHZ": "", "/livezz": "", "/debug/controllers/deployment": "",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if want == "" {
			if w.Code != 404 || w.Body.String() != "404 page not found\n" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("MH-4 %s: %d %q", path, w.Code, w.Body)
			}
		} else if w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

// FuzzRequests: nobody gets what is not for everybody, and nothing ends the server.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/healthz", "verbose", ""}, {"POST", "/healthz/", "exclude=%zz", "Authorization: Bearer x"}, {"HEAD", "//healthz", "", ""},
		{"OPTIONS", "*", "", ""}, {"CONNECT", "/debug/pprof/profile", "seconds=1", ""},
		{"GET", "/livez/../metrics", "", "X-Remote-User: root"},
		{"PUT", "/debug/flags/v", "", "Content-Length: 3"}, {"GET", "/%2e%2e/metrics", ";", "Accept: a;b=c"},
		{"GET", "/statusz", "", "Accept: ,;q=x"},
		{"GET", "/debug/pprof/heap", "debug=99999999999999999999&gc=1", "Authorization: bearer  x"}, {"\x00", "/\n", "\xff", "A: \r"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	c := basic()
	c.Limits = withDefaults(c.Limits)
	s := newServer(c, klog.Logger{})
	if err := s.newAccess(f.Context()); err != nil {
		f.Fatal(err)
	}
	ca := file(f, newIssuer(f, "ca").pem)
	s.certificates = certificates.New(certificates.Server{}, certificates.Clients{
		ClientCAFile: ca, FrontProxy: certificates.FrontProxy{CAFile: ca, UserHeaders: []string{"X-Remote-User"}},
	}, certificates.Options{Problems: s.problems})
	if err := s.certificates.Load(f.Context()); err != nil {
		f.Fatal(err)
	}
	s.current.Store(s.newIdentity())
	handlers := paths()
	for path, h := range pages.Profiles() {
		handlers[path] = h
	}
	handlers["/flagz"], handlers["/statusz"] = pages.Flagz("x", nil), pages.Statusz("x", pages.Status{})
	h := s.handler(handlers)
	open := regexp.MustCompile(`^/?(healthz|readyz|livez)$`)
	f.Fuzz(func(t *testing.T, method, path, query, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(query))
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		key, value, _ := strings.Cut(header, ": ")
		r.Header[http.CanonicalHeaderKey(key)] = []string{value}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code != 200 && w.Code != 403 && w.Code != 404:
			t.Errorf("%s %q: %d", method, path, w.Code)
		case w.Code != 403 && !open.MatchString(path):
			t.Errorf("%s %q is not for everybody: %d", method, path, w.Code)
		case w.Header().Get("Cache-Control") != "no-cache, private":
			t.Errorf("MH-4: %v", w.Header())
		}
		// Who is let in gets an answer, whatever is asked for; profiles by seconds take too long for that.
		if !strings.Contains(query, "seconds") && path != "/debug/pprof/profile" && path != "/debug/pprof/trace" {
			newRoutes(handlers).ServeHTTP(httptest.NewRecorder(), r)
			for _, page := range []string{"/flagz", "/statusz"} {
				r.URL.Path = page
				r.Header["Accept"] = []string{value}
				newRoutes(handlers).ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	})
}
