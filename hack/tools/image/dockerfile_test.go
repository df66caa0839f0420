package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatTheDockerfileSays(t *testing.T) {
	for _, row := range []struct{ name, file, want string }{ // want is in the error; empty for none
		{"two stages",
			"ARG F=b\nFROM scratch AS a\nCOPY bin /image/\nFROM ${BINARY_FROM} AS b\nFROM scratch\nCOPY --from=b /image/ /opt/\nCOPY " +
				"--from=b /image/ /usr/bin/\nENV PATH=/usr/bin\nUSER 1:2\nLABEL k=$VERSION\nEXPOSE 3\nENTRYPOINT [\"x\"]\n", ""},
		{"another image", "FROM golang\n", "another image"},
		{"files of another image", "FROM scratch\nCOPY --from=golang /a /b\n", "another image"},
		{"an instruction that is not known", "FROM scratch\nRUN \\\n  rm x\n", "not known"},
		{"another variable", "FROM scratch\nENV HOME=/\n", "no variable but PATH"},
		{"a label in another form", "FROM scratch\nLABEL k v\n", "no label but"},
		{"an option of copying", "FROM scratch\nCOPY --chmod=777 bin /\n", "without options"},
		{"nothing", "# nothing\n", "no stage"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "Dockerfile"), row.file)
			if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "bin", "x"), "program")
			if err := os.Symlink("x", filepath.Join(dir, "bin", "y")); err != nil {
				t.Fatal(err)
			}
			i, err := options{repository: dir, from: "a", version: "v1"}.readImage(t.TempDir(), "linux/amd64")
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v, want %q", err, row.want)
			}
			if err != nil {
				return
			}
			if link, err := os.Readlink(filepath.Join(i.root, "usr", "bin", "y")); link != "x" || i.user != "1:2" || i.path != "/usr/bin" ||
				i.entrypoint[0] != "x" || i.labels["k"] != "v1" {
				t.Errorf("link %q (%v) in %+v", link, err, i)
			}
		})
	}
}
