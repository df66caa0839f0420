package overlay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An edit whose text is not there exactly once is an error, as with another release of Go.
func TestATextMustBeThereOnce(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"one": "", "two": "2 times", "three": "0 times"} {
		err := Files{}.apply(root, []edit{{"a.go", old, "x"}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", old, err, want)
		}
	}
}

// The edits fit the release of Go that compiles this, and the overlay names a copy of each file.
func TestSeeded(t *testing.T) {
	files, err := Seeded("../..")
	if err != nil {
		t.Fatal(err)
	}
	file, err := files.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if got, err := os.ReadFile(overlay.Replace[path]); err != nil || string(got) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
