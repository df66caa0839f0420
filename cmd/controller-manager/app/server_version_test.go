package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestVersionsAreCompared(t *testing.T) {
	for server, goesWith := range map[string]bool{
		"v1.37.2": true, "v1.37.0+k3s1": true, "v1.38.0-beta.0": true, "v1.39.1": false, "v1.35.4": true, "v1.34.9": false, "none": false, "v2.37.2": false,
	} {
		if wrong := unsupported(server, "v1.37.2"); (wrong == "") != goesWith || wrong != "" && !strings.Contains(wrong, server) {
			t.Errorf("%s: %q", server, wrong)
		}
	}
}

// The version command asks an API server, names both versions, and ends with 1 if they do not go together, or nobody answers.
func TestVersionOfTheServer(t *testing.T) {
	own := kubernetesVersion().GitVersion
	for _, test := range []struct {
		server string
		code   int
		says   string
	}{
		{own, 0, "is of " + own + ", with which this build works"},
		{"v9.8.7", 1, "--check-server: v9.8.7 and " + own + " cannot be compared"},
		{"", 1, "does not answer: GET /version: 503"},
	} {
		server := serverOfVersion(t, func() string { return test.server })
		code, stdout, stderr := execute(t, t.Context(), newStarted().Program, "version", "--check-server", "--master="+server)
		if code != test.code || !strings.Contains(stdout+stderr, test.says) {
			t.Errorf("%q: %d %s%s", test.server, code, stdout, stderr)
		}
	}
	_, stdout, _ := execute(t, t.Context(), newStarted().Program, "version", "-o", "json", "--check-server",
		"--master="+serverOfVersion(t, func() string { return own }))
	if !strings.HasSuffix(stdout, "}\n") {
		t.Errorf("the answer for programs is more than one document: %s", stdout)
	}
}

// A start logs once whether the versions go together, also when the API server comes late.
func TestStartLogsTheVersionOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for version, want := range map[string]string{kubernetesVersion().GitVersion: "The versions", "v9.8.7": "Warning: the versions"} {
			log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			asked := 0
			config := &rest.Config{Host: "http://server", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				if asked++; asked < 3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				} else {
					fmt.Fprintf(w, `{"gitVersion":%q}`, version)
				}
				return w.Result(), nil
			})}
			began := time.Now()
			logServerVersion(klog.NewContext(t.Context(), log), config)
			lines := log.GetSink().(ktesting.Underlier).GetBuffer().String()
			took := time.Since(began)
			if asked != 3 || took != 2*askVersionEvery || strings.Count(lines, "go together") != 1 || !strings.Contains(lines, want) {
				t.Errorf("%s, asked %d times: %s", version, asked, lines)
			}
		}
	})
}

// serverOfVersion is an API server that knows its version; without one, it is not available.
func serverOfVersion(t *testing.T, version func() string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := version(); v != "" && r.URL.Path == "/version" {
			fmt.Fprintf(w, `{"gitVersion":%q}`, v)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
