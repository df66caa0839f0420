// Package overlay writes edited copies of source files and the file that has the compiler take them in place of the originals
// (go build -overlay).
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Files are the texts of source files by their absolute paths. A file need not exist.
type Files map[string]string

// Write writes the texts into a folder and returns the file for -overlay.
func (f Files) Write(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, text := range f {
		copied := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(filepath.ToSlash(path), "/"), "/", "-"))
		if err := writeIfNew(copied, text); err != nil {
			return "", err
		}
		replace[path] = copied
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, writeIfNew(file, string(content))
}

// writeIfNew leaves a file with the same text as it is, so that processes may write the same overlay at the same time.
func writeIfNew(path, text string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// edit replaces a text that must be in a file exactly once.
type edit struct{ file, old, new string }

// apply makes the edits in files below a folder.
func (f Files) apply(root string, edits []edit) error {
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		text, known := f[path]
		if !known {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(content)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return fmt.Errorf("%s has this text %d times, not once:\n%s", path, n, e.old)
		}
		f[path] = strings.Replace(text, e.old, e.new, 1)
	}
	return nil
}
