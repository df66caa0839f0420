package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		all             time.Duration
		atOnce, targets int
		want            time.Duration
	}{
		{2 * time.Minute, 2, 15, 15 * time.Second},
		{time.Minute, 2, 4, 30 * time.Second},
		{time.Minute, 1, 1, time.Minute},
		{time.Second, 2, 15, least},
		{-time.Minute, 2, 15, least}, // compiling took longer than all may take
	} {
		if got := share(c.all, c.atOnce, c.targets); got != c.want {
			t.Errorf("%v for %d targets, %d at once: %v each, want %v", c.all, c.targets, c.atOnce, got, c.want)
		}
	}
}

// A module with targets in one of its packages: they are found, compiled once and fuzzed, and a failure is told, and kept where "go
// test" finds it.
func TestFuzzAll(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n\ngo 1.26.0\n",
		"none/none.go":   "package none\n",
		"some/some.go":   "package some\n",
		"some/a_test.go": "package some\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n",
		"some/b_test.go": "package some\n\nimport \"testing\"\n\nfunc FuzzB(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { " +
			"t.Error(\"no good\") }) }\n",
		"some/sub_test.go": "package some_test\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packages, _, err := fuzzedPackages(dir)
	if err != nil || len(packages) != 1 || packages[0].path != "example.com/m/some" {
		t.Fatalf("packages %v, %v", packages, err)
	}
	targets, err := packages[0].compile(filepath.Join(dir, "binary"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, each := range targets {
		names = append(names, each.name)
		out, err := each.fuzz(time.Second)
		if strings.Contains(string(out), "not instrumented") {
			t.Errorf("%s: %s", each.name, out)
		}
		if !strings.Contains(string(out), "new interesting") {
			t.Errorf("%s is not guided by coverage: %s", each.name, out)
		}
		if failed := err != nil; failed != (each.name == "FuzzB") {
			t.Errorf("%s: %v\n%s", each.name, err, out)
		}
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "some", "testdata", "fuzz", "FuzzB", "*")); len(kept) != 1 {
		t.Errorf("the input that fails is kept in %v, %v", kept, err)
	}
	if !slices.Equal(names, []string{"FuzzA", "FuzzB"}) {
		t.Errorf("targets %v", names)
	}
}
