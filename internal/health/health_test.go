package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// switches are checks that the test turns on and off.
type switches struct {
	mu    sync.Mutex
	names []string
	errs  map[string]error
}

func (s *switches) checks() (all []Check) {
	for _, name := range s.names {
		all = append(all, Check{Name: name, Err: func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.errs[name]
		}})
	}
	return all
}

func (s *switches) set(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[name] = err
}

func ask(ctx context.Context, h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
	return w
}

func TestAnswers(t *testing.T) {
	one := []string{"a", "b"}
	for _, c := range []struct {
		fact, handler, path string
		checks              []string
		fails               string
		code                int
		body                string
	}{
		{"MH-6", "healthz", "/healthz", one, "", 200, "ok"},
		{"MH-6", "healthz", "/healthz/", one, "", 404, "404 page not found\n"},
		{"MH-6", "healthz", "/healthz/a", one, "", 404, "404 page not found\n"},
		{"LE-19", "healthz", "/healthz/leaderElection", []string{"leaderElection"}, "", 404, "404 page not found\n"},
		{"MH-6", "healthz", "/healthz/ping", nil, "", 404, "404 page not found\n"},
		{"MH-15", "healthz", "/healthz?verbose", one, "", 200, "[+]a ok\n[+]b ok\nhealthz check passed\n"},
		{"MH-15", "healthz", "/healthz?verbose=1", one, "", 200, "[+]a ok\n[+]b ok\nhealthz check passed\n"},
		{"MH-15", "healthz", "/healthz", one, "b", 500, "[+]a ok\n[-]b failed: reason withheld\nhealthz check failed\n"},
		{"MH-15", "healthz", "/healthz?verbose", one, "a", 500, "[-]a failed: reason withheld\n[+]b ok\nhealthz check failed\n"},
		{"MH-16", "healthz", "/healthz?verbose&exclude=b", one, "b", 200, "[+]a ok\n[+]b excluded: ok\nhealthz check passed\n"},
		{"MH-16", "healthz", "/healthz?exclude=a&exclude=b", one, "b", 200, "ok"},
		{"MH-16", "healthz", "/healthz?exclude=a", one, "b", 500,
			"[+]a excluded: ok\n[-]b failed: reason withheld\nhealthz check failed\n"},
		{"MH-17", "healthz", "/healthz?verbose", nil, "", 200, "[+]ping ok\nhealthz check passed\n"},
		{"one check", "livez", "/livez/a", one, "b", 200, "ok"},
		{"one check", "livez", "/livez/b", one, "b", 500, "[-]b failed: reason withheld\nlivez check failed\n"},
		{"one check", "livez", "/livez/c", one, "", 404, "404 page not found\n"},
		{"one check", "livez", "/livez/", one, "", 404, "404 page not found\n"},
		{"ping", "readyz", "/readyz/ping", nil, "", 200, "ok"},
		{"all", "readyz", "/readyz?verbose", one, "", 200, "[+]a ok\n[+]b ok\nreadyz check passed\n"},
	} {
		s := &switches{names: c.checks, errs: map[string]error{c.fails: errors.New("secret")}}
		h := Handler(c.handler, s.checks)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} { // MH-6: any will do
			if w := ask(t.Context(), h, method, c.path); w.Code != c.code || w.Body.String() != c.body {
				t.Errorf("%s, %s %s: %d %q", c.fact, method, c.path, w.Code, w.Body)
			} else if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
				t.Errorf("%s, %s %s: Content-Type %s", c.fact, method, c.path, got)
			}
		}
	}
}

// A check that is advisory is shown and has a path of its own, and does not make the process unready (REG-103).
func TestAdvisoryChecks(t *testing.T) {
	h := Handler("readyz", func() []Check {
		return []Check{{Name: "a", Err: func() error { return nil }},
			{Name: "b", Advisory: true, Err: func() error { return errors.New("no") }}}
	})
	for path, want := range map[string]string{
		"/readyz":         "200 ok",
		"/readyz?verbose": "200 [+]a ok\n[-]b failed: reason withheld\nreadyz check passed\n",
		"/readyz/b":       "500 [-]b failed: reason withheld\nreadyz check failed\n",
	} {
		if w := ask(t.Context(), h, http.MethodGet, path); fmt.Sprintf("%d %s", w.Code, w.Body) != want {
			t.Errorf("REG-103 %s: %d %q", path, w.Code, w.Body)
		}
	}
}

// LE-20: why a check fails is in the log alone, and there once a minute however often it is asked for.
func TestReasonsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx := klog.NewContext(t.Context(), logger)
		s := &switches{names: []string{"a", "b"}, errs: map[string]error{}}
		h := Handler("livez", s.checks)
		lines := func() (all []string) {
			for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
				all = append(all, fmt.Sprint(entry.Message, entry.ParameterKVList))
			}
			return all
		}
		probe := func(times int) {
			for range times {
				ask(ctx, h, http.MethodGet, "/livez")
				time.Sleep(10 * time.Second)
			}
		}
		probe(10)
		if len(lines()) != 0 {
			t.Errorf("all is well, but: %v", lines())
		}
		s.set("b", errors.New("a worker has been at x for 6m"))
		probe(3)
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], "a worker has been at x for 6m") ||
			!strings.Contains(all[0], "/livez check b") {
			t.Errorf("LE-20: %v", all)
		}
		probe(9) // 2 minutes in all
		if n := len(lines()); n != 2 {
			t.Errorf("%d lines in 2 minutes", n)
		}
		s.set("b", nil)
		probe(10)
		if all := lines(); len(all) != 3 || !strings.Contains(all[2], "passes again") {
			t.Errorf("recovered: %v", all)
		}
		s.set("b", errors.New("again"))
		probe(1)
		if n := len(lines()); n != 4 {
			t.Errorf("a new failure is news at once: %v", lines())
		}
	})
}

func TestResultsAreCounted(t *testing.T) { // MH-30
	registry := metrics.NewKubeRegistry()
	slis.Register(registry)
	slis.ResetHealthMetrics()
	s := &switches{names: []string{"a", "b"}, errs: map[string]error{"b": errors.New("no")}}
	ask(t.Context(), Handler("healthz", s.checks), http.MethodGet, "/healthz")
	ask(t.Context(), Handler("healthz", s.checks), http.MethodGet, "/healthz?exclude=a")
	ask(t.Context(), Handler("livez", s.checks), http.MethodGet, "/livez/a")
	want := []string{
		`kubernetes_healthcheck{name="a",type="healthz"} 1`,
		`kubernetes_healthcheck{name="a",type="livez"} 1`,
		`kubernetes_healthcheck{name="b",type="healthz"} 0`,
		`kubernetes_healthchecks_total{name="a",status="success",type="healthz"} 1`,
		`kubernetes_healthchecks_total{name="a",status="success",type="livez"} 1`,
		`kubernetes_healthchecks_total{name="b",status="error",type="healthz"} 2`,
	}
	w := ask(t.Context(), metrics.HandlerFor(registry, metrics.HandlerOpts{}), http.MethodGet, "/metrics/slis")
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "kubernetes_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("MH-30:\n%s", w.Body)
	}
}

func TestManyProbesAtATime(t *testing.T) {
	s := &switches{names: []string{"a", "b"}, errs: map[string]error{}}
	h := Handler("readyz", s.checks)
	quiet := klog.NewContext(t.Context(), klog.Logger{})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if i%5 == 0 {
				s.set("b", errors.New("no"))
			} else {
				s.set("b", nil)
			}
			ask(quiet, h, http.MethodGet, "/readyz?verbose")
		})
	}
	all.Wait()
	s.set("b", nil)
	if w := ask(t.Context(), h, http.MethodGet, "/readyz"); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}
