package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/LICENSE": "one\n", "a/third_party/LICENSE.txt": "two\r\n", "a/license.go": "package a", "a/testdata/LICENSE": "three",
		"b/COPYING": "one", "b/NOTICE": "four", "c/README.md": "none", "go/LICENSE": "five", "go/src/LICENSE": "six",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	got, err := collect([]module{{"Go go1", in("go")}, {"a@v1", in("a")}, {"b@v1", in("b")}})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("=", 80) + "\n"
	want := "The binaries contain code of the following modules, under these licenses.\n" +
		"\n" + line + "Go go1 LICENSE\n\nfive\n" +
		"\n" + line + "a@v1 LICENSE\nb@v1 COPYING\n\none\n" +
		"\n" + line + "a@v1 third_party/LICENSE.txt\n\ntwo\n" +
		"\n" + line + "b@v1 NOTICE\n\nfour\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := collect([]module{{"c@v1", in("c")}}); err == nil || err.Error() != "c@v1 has no license" {
		t.Errorf("a module without a license: %v", err)
	}
}

// Every module of the binary has a license, and the ones that go.mod names are among them.
func TestNoticesOfTheBinary(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	folder := filepath.Join(t.TempDir(), "licenses")
	if err := write([]string{"linux/amd64", "windows/amd64"}, folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "THIRD_PARTY_NOTICES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`k8s\.io/client-go@v\S+ LICENSE`, `k8s\.io/api@v\S+ LICENSE`, `github\.com/spf13/cobra@v\S+ LICENSE`,
		`Go go1\.\S+ LICENSE`, `Apache License`} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("the notices do not have %s", want)
		}
	}
	if license, err := os.ReadFile(filepath.Join(folder, "LICENSE")); err != nil || !strings.Contains(string(license), "Apache License") {
		t.Errorf("the license of the project: %v", err)
	}
}
