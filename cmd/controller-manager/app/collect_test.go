package app

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// What people keep credentials in is not in the part of a pod that a bundle has; its arguments are.
func TestPublicPartOfAPod(t *testing.T) {
	const secret = "hunter2"
	text, err := yaml.Marshal(publicPart(corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: map[string]string{"a": secret},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: secret}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--leader-elect"},
			Env: []corev1.EnvVar{{Name: "TOKEN", Value: secret}}}}, InitContainers: []corev1.Container{{Args: []string{secret}}}},
	}))
	if err != nil || strings.Contains(string(text), secret) || !strings.Contains(string(text), "--leader-elect") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A page that says what fails is kept with its status; what cannot be read is noted, and the rest is there.
func TestBundle(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, "text of "+r.URL.Path)
	}))
	defer s.Close()
	var out bytes.Buffer
	b := &bundle{tar: tar.NewWriter(&out)}
	for _, name := range []string{"livez", "readyz"} {
		text, err := readPage(t.Context(), http.DefaultClient, s.URL+"/"+name)
		if err := b.add(name, text, err); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.add("log", nil, errors.New("forbidden")); err != nil {
		t.Fatal(err)
	}
	if err := b.tar.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.errors, "; "); got != "readyz: 500 Internal Server Error; log: forbidden" {
		t.Error(got)
	}
	var names []string
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if strings.Join(names, " ") != "livez readyz" || b.files != 2 {
		t.Errorf("%v, %d files", names, b.files)
	}
}

// An archive that exists is not written over.
func TestCollectWritesOverNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&whyAsker{}).collectInto(t.Context(), file); err == nil || err.Error() != "file exists" {
		t.Error(err)
	}
}
