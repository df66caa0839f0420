package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program that runs is copied as a whole, can be executed, and takes the place of what is there; nothing else is left.
func TestCopy(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	target := filepath.Join(folder, "kube-controller-manager")
	if err := os.WriteFile(target, []byte("the original"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := execute(t, t.Context(), newStarted().Program, "copy", target); code != 0 || stdout+stderr != "" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	info, err := os.Stat(target)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// A folder that is not there, or that is named in the place of a file, is named in one line, and nothing is left.
func TestCopyThatFails(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "full", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{filepath.Join(folder, "none", "x"), filepath.Join(folder, "full")} {
		code, _, stderr := execute(t, t.Context(), newStarted().Program, "copy", target)
		if code != 1 || !strings.HasPrefix(stderr, "Error: copy the program to "+target+": ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%d %s", code, stderr)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}
