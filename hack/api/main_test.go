package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A type of internal/ in a public declaration is an error; one that only the body or what is not exported knows is none.
func TestNoTypeOfInternal(t *testing.T) {
	for text, want := range map[string]string{
		"func F() *queue.Queue { return nil }":              "queue.Queue",
		"type T struct{ Q []queue.Queue }":                  "queue.Queue",
		"type T = queue.Queue":                              "queue.Queue",
		"type T int\nfunc (t T) m(queue.Queue) {}":          "",
		"type T int\nfunc (T) M(map[string]queue.Queue) {}": "queue.Queue",
		"type T struct{ q queue.Queue }":                    "",
		"func F() { queue.New() }":                          "",
		"const C = queue.Length":                            "",
		"var V queue.Queue":                                 "queue.Queue",
	} {
		folder := t.TempDir()
		source := "package p\nimport \"example.com/internal/queue\"\n" + text
		if err := os.WriteFile(filepath.Join(folder, "p.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := declarations(folder)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
