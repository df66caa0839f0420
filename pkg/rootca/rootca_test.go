package rootca

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const example = "testdata/authorities.pem"

func read(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestOpen(t *testing.T) { // TOK-3
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := read(t)
	data := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("data"), CAFile: bad}}
	for _, c := range []struct {
		name, path string
		client     *rest.Config
		want, err  string
	}{
		{"a file", example, data, all, ""},
		{"the data of the client", "", data, "data", ""},
		{"the file of the client", "", &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: example}}, all, ""},
		{"the authorities of the system", "", &rest.Config{}, "", ""},
		{"no client", "", nil, "", ""},
		{"a file without certificates", bad, data, "", "error parsing root-ca-file at " + bad + ": "},
		{"no file", "/nope", data, "", "error parsing root-ca-file at /nope: open /nope: no such file or directory"},
		{"a file of the client without certificates", "", &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: bad}}, "", bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Open(c.path, c.client)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("the error is %v", err)
				}
			case err != nil:
				t.Error(err)
			case f.Get() != c.want:
				t.Errorf("%q", f.Get())
			}
		})
	}
}

// FuzzParse: what is accepted is kept byte for byte, and has a certificate.
func FuzzParse(f *testing.F) {
	all := read(f)
	for _, seed := range []string{all, all[:len(all)/2], all[:100], "", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if text, err := parse(content); text != string(content) || err == nil && !strings.Contains(text, "CERTIFICATE") {
			t.Errorf("%q, %v", text, err)
		}
	})
}
