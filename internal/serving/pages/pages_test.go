package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func request(h http.Handler, method, path, accept, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const flagzText = `
kube-controller-manager flagz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.
a: 1
b: [x,y]
`

func TestFlagz(t *testing.T) { // MH-11
	h := Flagz("kube-controller-manager", map[string]string{"b": "[x,y]", "a": "1"})
	const object = `{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kube-controller-manager"},"flags":{"a":"1","b":"[x,y]"}}`
	for _, test := range []struct {
		accept string
		code   int
		kind   string
	}{
		{"", 200, "text/plain; charset=utf-8"},
		{"*/*", 200, "text/plain; charset=utf-8"},
		{"text/*", 200, "text/plain; charset=utf-8"},
		{"text/plain;q=0.5", 200, "text/plain; charset=utf-8"},
		{"application/json;v=v1beta1;g=config.k8s.io;as=Flagz", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"},
		{"application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz", 200, "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz"},
		{"application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", 200, "application/json;g=config.k8s.io;v=v1alpha1;as=Flagz"},
		{"text/html, application/json;v=v1beta1;g=config.k8s.io;as=Flagz, */*", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"},
		{"application/json;v=v1beta1;g=config.k8s.io;as=Flagz;q=0.1, text/plain", 200, "text/plain; charset=utf-8"},
		{"application/json, text/plain;q=0.1", 200, "text/plain; charset=utf-8"},
		{"application/json", 406, "application/json"},
		{"application/json;v=v1;g=config.k8s.io;as=Flagz", 406, "application/json"},
		{"application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 406, "application/json"},
		{"application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz", 406, "application/json"},
		{"text/html", 406, "application/json"},
		{";;;,=", 406, "application/json"},
	} {
		w := request(h, "GET", "/flagz", test.accept, "")
		if w.Code != test.code || w.Header().Get("Content-Type") != test.kind {
			t.Errorf("%q: %d %v", test.accept, w.Code, w.Header())
		}
		deprecated := strings.Contains(test.kind, "v1alpha1")
		if deprecated != (w.Header().Get(
			"Warning") == `299 - "This version of the flagz endpoint is deprecated. Please use a newer version."`) {
			t.Errorf("%q: %v", test.accept, w.Header())
		}
		switch body := w.Body.String(); {
		case w.Code == 406:
			if !strings.Contains(body,
				`"message": "only the following media types are accepted: application/json, application/yaml, text/plain"`) {
				t.Errorf("%q: %s", test.accept, body)
			}
		case strings.HasPrefix(test.kind, "text"):
			if diff := cmp.Diff(flagzText, body); diff != "" {
				t.Errorf("%q: %s", test.accept, diff)
			}
		default:
			var got, want map[string]any
			if err := yaml.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			version := "v1beta1"
			if deprecated {
				version = "v1alpha1"
			}
			_ = json.Unmarshal([]byte(strings.Replace(object, "v1beta1", version, 1)), &want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q: %s", test.accept, diff)
			}
		}
	}
}

func TestStatusz(t *testing.T) { // MH-11
	synctest.Test(t, func(t *testing.T) {
		h := Statusz("kube-controller-manager", Status{
			Start: time.Now(), BinaryVersion: "1.37.2", EmulationVersion: "1.35", Paths: []string{"/metrics", "/configz"},
		})
		time.Sleep(26*time.Hour + 3*time.Minute + 4500*time.Millisecond)
		want := `
kube-controller-manager statusz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

Started: Sat Jan  1 00:00:00 UTC 2000
Up: 26 hr 03 min 04 sec
Go version: ` + runtime.Version() + `
Binary version: 1.37.2
Emulation version: 1.35
Paths: /configz /metrics
`
		if diff := cmp.Diff(want, request(h, "GET", "/statusz", "", "").Body.String()); diff != "" {
			t.Error(diff)
		}
		var got map[string]any
		w := request(h, "GET", "/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{
			"kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": map[string]any{"name": "kube-controller-manager"},
			"startTime": "2000-01-01T00:00:00Z", "uptimeSeconds": 93784.0, "goVersion": runtime.Version(), "binaryVersion": "1.37.2",
			"emulationVersion": "1.35", "paths": []any{"/configz", "/metrics"},
		}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestConfigz(t *testing.T) { // MH-10
	w := request(Configz("x.config.k8s.io", map[string]int{"A": 1}), "POST", "/configz", "", "")
	var b bytes.Buffer
	if err := json.Compact(&b, w.Body.Bytes()); err != nil || b.String() != `{"x.config.k8s.io":{"A":1}}` {
		t.Errorf("%v: %s", err, &b)
	}
	if w.Header().Get("Content-Type") != "application/json" {
		t.Error(w.Header())
	}
	if w := request(Configz("x", func() {}), "GET", "/configz", "", ""); w.Code != 500 {
		t.Errorf("what cannot be shown: %d", w.Code)
	}
}

func TestVerbosity(t *testing.T) { // MH-13
	set := ""
	h := Verbosity(func(value string) (string, error) {
		if value != "4" {
			return "", errors.New("no number")
		}
		set = value
		return "successfully set", nil
	})
	for _, test := range []struct {
		method, body string
		code         int
		answer       string
	}{
		{"GET", "", 406, "unsupported http method\n"},
		{"POST", "4", 406, "unsupported http method\n"},
		{"PUT", "x", 400, "no number\n"},
		{"PUT", "", 400, "no number\n"},
		{"PUT", "4\n", 200, "successfully set\n"},
	} {
		w := request(h, test.method, "/debug/flags/v", "", test.body)
		if w.Code != test.code || w.Body.String() != test.answer || w.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%s %q: %d %s", test.method, test.body, w.Code, w.Body)
		}
	}
	if set != "4" {
		t.Error("nothing is set")
	}
}
