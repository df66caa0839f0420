package credentials

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

func TestOpenRootCA(t *testing.T) { // TOK-3
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
			f, err := OpenRootCA(c.path, c.client)
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

// Only a file that an operator names says what pods should have, and only if it is not a copy of what was published (RCA-8).
func TestAuthoritativeRootCA(t *testing.T) {
	for path, want := range map[string]bool{
		"": false, "/etc/kubernetes/pki/ca.crt": true,
		"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt":    false,
		"/var/run/secrets/kubernetes.io//serviceaccount/./ca.crt": false,
		"/run/secrets/kubernetes.io/serviceaccount/ca.crt":        false,
	} {
		if got := AuthoritativeRootCA(path); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
}

func TestDescribeRootCA(t *testing.T) {
	all := read(t)
	for _, c := range []struct {
		path, bundle   string
		client         *rest.Config
		from, subjects string
	}{
		{"/x/ca.crt", all, nil, "/x/ca.crt", "CN="},
		{"", all, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: example}}, example, "CN="},
		{"", all, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte(all)}}, "the client configuration", "; CN="},
		{"", "x", nil, "the client configuration", "unknown: "},
	} {
		from, subjects := DescribeRootCA(c.path, c.client, c.bundle)
		if from != c.from || !strings.Contains(subjects, c.subjects) {
			t.Errorf("%q, %q: from %s, of %s", c.path, c.bundle, from, subjects)
		}
	}
}

// FuzzParseCertificates: what is accepted is kept byte for byte, and has a certificate.
func FuzzParseCertificates(f *testing.F) {
	all := read(f)
	for _, seed := range []string{all, all[:len(all)/2], all[:100], "", "x",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if text, err := parseCertificates(content); text != string(content) || err == nil && !strings.Contains(text, "CERTIFICATE") {
			t.Errorf("%q, %v", text, err)
		}
	})
}
